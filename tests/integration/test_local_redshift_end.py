"""How the local Redshift begins and ends: nothing is left behind, and what is to be kept is there again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_cloud import Cloud

PATIENCE = 30.0
UP = """
import sys
from local_cloud import Cloud
with Cloud(["redshift"]) as cloud:
    print(cloud.services["redshift"].pid, flush=True)
    sys.stdin.read()
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def running() -> dict[int, tuple[int, str]]:
    """Every running process with its parent and its command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if state != "Z":
                found[int(entry.name)] = (int(parent), command)
    return found


def family_of(pid: int) -> set[int]:
    """A process and all that it started."""
    known, family = running(), {pid}
    while more := {child for child, (parent, _) in known.items() if parent in family} - family:
        family |= more
    return family


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def owner(temporary: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has a cloud with Redshift, which is up."""
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
    """The folders of PostgreSQL, as its processes name them."""
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
        until(lambda: not family & set(running()), "processes outlive local-cloud")
        until(lambda: not list(temporary.iterdir()), "files outlive local-cloud")
    else:
        os.kill(server, signal.SIGKILL)
        until(lambda: not postgres & set(running()), "PostgreSQL outlives its server")
        owner.communicate("")
        until(lambda: not list(temporary.iterdir()), "files outlive local-cloud")
    until(lambda: not any(home.exists() for home in homes), "PostgreSQL's folder is left")


@linux
@pytest.mark.parametrize("victim", ["owner", "server"])
def test_kill_9_while_it_starts(owner: "subprocess.Popen[str]", temporary: Path, victim: str) -> None:
    def initdb() -> list[int]:
        known = running()
        return [pid for pid in family_of(owner.pid) if "/initdb -D" in known.get(pid, (0, ""))[1]]

    until(initdb, "PostgreSQL was not begun")
    family = family_of(owner.pid)
    homes = homes_of(family)
    assert homes
    if victim == "owner":
        owner.kill()
    else:
        [server] = [pid for pid in family if "local_cloud.redshift.server" in running().get(pid, (0, ""))[1]]
        os.kill(server, signal.SIGKILL)
        owner.communicate("")
    until(lambda: not family & set(running()), "processes outlive local-cloud")
    until(lambda: not list(temporary.iterdir()), "files outlive local-cloud")
    until(lambda: not any(home.exists() for home in homes), "PostgreSQL's folder is left")


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
