"""Start and stop of the local Redshift: temporary data is removed, kept data is restored."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import family_of, linux, running
from waiting import wait_until

from local_cloud import Cloud

UP = """
import sys
from local_cloud import Cloud
with Cloud(["redshift"]) as cloud:
    print(cloud.services["redshift"].pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def owner(temporary: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that runs a cloud with Redshift, and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", UP],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)},
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def homes_of(family: set[int]) -> set[Path]:
    """Return the PostgreSQL data folders in the command lines of processes, including initdb and its shells."""
    commands = [command.split() for pid, (_, command) in running().items() if pid in family]
    return {Path(words[words.index("-D") + 1]).parent for words in commands if "-D" in words}


@linux
@pytest.mark.parametrize("victim", ["owner", "server"])
def test_kill_9_leaves_no_process_and_no_file(owner: "subprocess.Popen[str]", temporary: Path, victim: str) -> None:
    assert owner.stdout is not None
    server = int(owner.stdout.readline())
    family = family_of(owner.pid)
    homes = homes_of(family)
    postgres = family_of(server) - {server}
    assert len(postgres) >= 3
    assert len(homes) == 1
    if victim == "owner":
        owner.kill()
        wait_until(lambda: not family & set(running()), or_else="processes outlive local-cloud")
        wait_until(lambda: not list(temporary.iterdir()), or_else="files outlive local-cloud")
    else:
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: not postgres & set(running()), or_else="PostgreSQL outlives its server")
        owner.communicate("")
        wait_until(lambda: not list(temporary.iterdir()), or_else="files outlive local-cloud")
    wait_until(lambda: not any(home.exists() for home in homes), or_else="PostgreSQL's folder is left")


@linux
@pytest.mark.parametrize("victim", ["owner", "server"])
def test_kill_9_while_it_starts(owner: "subprocess.Popen[str]", temporary: Path, victim: str) -> None:
    def begun() -> tuple[set[int], set[Path]] | None:
        assert owner.poll() is None
        family = family_of(owner.pid)
        homes = homes_of(family)
        return (family, homes) if homes else None

    # Usually during initdb; on a slow machine during a later step, which must leave nothing either.
    family, homes = wait_until(begun, or_else="PostgreSQL was not begun")
    if victim == "owner":
        owner.kill()
    else:
        known = running()
        servers = {pid for pid in family if "local_cloud.redshift.server" in known.get(pid, (0, ""))[1]}
        [server] = [pid for pid in servers if known[pid][0] not in servers]  # not its forked copy
        os.kill(server, signal.SIGKILL)
        owner.communicate("")
    wait_until(lambda: not family & set(running()), or_else="processes outlive local-cloud")
    wait_until(lambda: not list(temporary.iterdir()), or_else="files outlive local-cloud")
    wait_until(lambda: not any(home.exists() for home in homes), or_else="PostgreSQL's folder is left")


def test_tables_are_kept_in_a_directory(tmp_path: Path) -> None:
    name = "n" * 100
    for run in range(3):
        with (
            Cloud(["redshift"], data_dir=tmp_path, redshift_slices=run + 1) as cloud,
            cloud.redshift_connection() as rs,
        ):
            rs.execute(f"create table if not exists {name} (id int distkey)")
            rs.execute(f"insert into {name} values (1)")
            cursor = rs.execute(f"select count(*) as {name} from {name}")
            assert cursor.description[0].name == name
            assert cursor.fetchone() == (run + 1,)
            assert rs.execute("select count(*) from stv_slices").fetchone() == (run + 1,)
    assert [entry.name for entry in (tmp_path / "redshift").iterdir()] == ["cluster"]


def test_redshift_brings_s3_and_its_environment() -> None:
    with Cloud(["redshift"]) as cloud:
        assert set(cloud.services) == {"s3", "redshift"}
        names = {"HOST", "PORT", "USER", "PASSWORD", "DBNAME", "S3_STAGE", "SSL"}
        assert {f"TARGET_REDSHIFT_{name}" for name in names} <= set(cloud.env)
        assert cloud.env["TARGET_REDSHIFT_S3_STAGE"] == "s3://stage/redshift"
        assert cloud.env["TARGET_REDSHIFT_SSL"] == "false"
