"""Run public taps and targets against ours and write docs/interoperation.md.

python -m interoperation                      all of the following but --pins
python -m interoperation --taps [NAME...]     captures of taps, loaded into both warehouses
python -m interoperation --load               captures that are there, loaded again
python -m interoperation --targets [NAME...]  tap-s3-files into targets
python -m interoperation --pins [NAME...]     pin the newest releases
python -m interoperation --page               the page, from what was found last
"""

from __future__ import annotations

import argparse
import os
import tempfile
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.harness import BenchmarkError
from warehouses import BigQuery, Redshift, Warehouse

from interoperation import captures, capturing, environments, loading, page
from interoperation.capturing import TapError
from interoperation.taps import TAPS, Places
from interoperation.targets import TARGETS
from local_cloud import Cloud


def main() -> None:
    """Execute the command line."""
    parser = argparse.ArgumentParser(prog="interoperation", description=__doc__)
    for option in ("--taps", "--targets", "--pins"):
        parser.add_argument(option, nargs="*", metavar="NAME")
    for option in ("--load", "--page"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    everything = given == parser.parse_args([])
    if given.pins is not None:
        known = {tap.environment(kind): tap.peer for tap in TAPS.values() for kind in tap.kinds}
        known |= {target.peer.package: target.peer for target in TARGETS.values()}
        environments.write_pins(known, given.pins or known)
    taps = TAPS if everything else given.taps if given.taps != [] else TAPS
    targets = TARGETS if everything else given.targets if given.targets != [] else TARGETS
    if taps is not None or targets is not None or given.load:
        with tempfile.TemporaryDirectory() as folder, Cloud() as cloud:
            Path(folder).chmod(0o755)  # PostgreSQL refuses to run as root, so it runs as another user
            os.environ.update({n: v for n, v in cloud.env.items() if n.startswith("AWS_")})
            with capturing.places(Path(folder), cloud) as where:
                _capture(list(taps or ()), where, Path(folder))
                if taps is not None or given.load:
                    _load(cloud, Path(folder))
                _into_targets(list(targets or ()), where, cloud, Path(folder))
    if given.page:
        page.write_found(page.read_found())


def _capture(names: Sequence[str], where: Places, folder: Path) -> None:
    for name in names:
        for kind in TAPS[name].kinds:
            _report(f"{name}, {kind}", capturing.capture, name, kind, where, _fresh(folder))


def _load(cloud: Cloud, folder: Path) -> None:
    found = page.read_found() | {"taps": {}}
    with closing(cloud.bigquery_client()) as client, cloud.redshift_connection() as connection:
        for capture in captures.captures():
            results = found["taps"][capture.name] = {}
            for kind, by in ((BigQuery, client), (Redshift, connection)):
                warehouse: Warehouse = kind(cloud, by, f"loaded_{uuid.uuid4().hex[:8]}")
                results[kind.name] = loading.into_warehouse(capture, warehouse, cloud, _fresh(folder))
                print(f"{capture.name}, {kind.name}: {results[kind.name]}", flush=True)
                warehouse.drop()
    page.write_found(found)


def _into_targets(names: Sequence[str], where: Places, cloud: Cloud, folder: Path) -> None:
    if not names:
        return
    found = page.read_found()
    for name in names:
        found["targets"][name] = {}
        for kind in TARGETS[name].kinds:
            result = _report(f"{name}, {kind}", loading.from_ours, name, kind, where, cloud, _fresh(folder))
            found["targets"][name][kind] = result
    page.write_found(found)


def _report(what: str, do: Callable[..., str], *arguments: object) -> str:
    try:
        result = do(*arguments)
    except (TapError, BenchmarkError) as error:
        result = str(error)
    print(f"{what}: {result}", flush=True)
    return result


def _fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


if __name__ == "__main__":
    main()
