"""Link DuckDB's extensions, which are packages of the environment, to where DuckDB looks for them."""

import importlib.util
from pathlib import Path

import duckdb

NAMES = ("icu", "httpfs", "spatial")


def lay_out(home: Path) -> None:
    """Link every extension under `home`/.duckdb, so that none is downloaded."""
    row = duckdb.connect().execute("PRAGMA platform").fetchone()
    assert row is not None
    version = f"v{duckdb.__version__}"
    directory = home / ".duckdb" / "extensions" / version / row[0]
    directory.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).parent / "extensions" / version / f"{name}.duckdb_extension"
        link = directory / source.name
        if not link.exists():
            link.symlink_to(source)
