"""`make clean` removes also what the local BigQuery has installed outside the folder."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_the_cache_is_removed_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text((Path(__file__).parents[2] / "Makefile").read_text())
    for cache, env in ((tmp_path / "x", {"XDG_CACHE_HOME": str(tmp_path / "x")}), (tmp_path / "h" / ".cache", {})):
        (cache / "local-cloud" / "bigquery").mkdir(parents=True)
        (cache / "other").mkdir()
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "h"), **env}
        subprocess.run(["make", "clean"], cwd=tmp_path, env=environ, check=True, capture_output=True)
        assert [path.name for path in cache.iterdir()] == ["other"]
