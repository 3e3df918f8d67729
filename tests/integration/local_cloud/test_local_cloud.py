"""The command local-cloud: the environment of its child, its exit, and its cleanup."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running import family_of, linux, running
from waiting import wait_until

from local_cloud import LocalCloudError
from local_cloud.process import Service

LOCAL_CLOUD = Path(sys.executable).with_name("local-cloud")
PATIENCE = 120.0

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(temporary: Path) -> Iterator[Start]:
    """Starts local-cloud with S3 only, in a process group of its own as a shell would."""
    started: list[subprocess.Popen[str]] = []

    def begin(action: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [LOCAL_CLOUD, action, "--service", "s3", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"TMPDIR": str(temporary)} | variables,
            text=True,
            process_group=0,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def run(start: Start, *command: str) -> tuple[int, str, str]:
    process = start("run", "--", *command)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def descendants(pid: int) -> set[int]:
    return family_of(pid) - {pid}


def listening(pids: set[int]) -> set[str]:
    """Return the addresses on which processes listen, as the kernel writes them."""
    sockets = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and cells[9] in sockets:
                addresses.add(cells[1].split(":")[0])
    return addresses


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_the_commands(start: Start, temporary: Path, script: str, code: int) -> None:
    assert run(start, "sh", "-c", script)[0] == code
    assert not list(temporary.iterdir())


@pytest.mark.smoke
def test_the_command_gets_the_environment_and_the_streams(start: Start) -> None:
    process = start("run", "--", "sh", "-c", "cat; env", AWS_PROFILE="mine", AWS_SESSION_TOKEN="old")
    stdout, _ = process.communicate("hello\n", timeout=60)
    line, *variables = stdout.splitlines()
    assert line == "hello"
    environment = dict(variable.partition("=")[::2] for variable in variables)
    assert environment["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert environment["AWS_ACCESS_KEY_ID"] == "test"
    assert environment["AWS_REGION"] == environment["AWS_DEFAULT_REGION"] == "us-east-1"
    assert environment["AWS_EC2_METADATA_DISABLED"] == "true"
    assert {"LOCAL_CLOUD_SOURCE_BUCKET", "LOCAL_CLOUD_STAGE_BUCKET", "LOCAL_CLOUD_SQS_QUEUE_URL"} <= set(environment)
    assert "127.0.0.1" in environment["NO_PROXY"]
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & set(environment)


def test_a_command_that_is_not_there(start: Start) -> None:
    code, _, stderr = run(start, "no-such-command")
    assert (code, stderr) == (1, "local-cloud: cannot run no-such-command: No such file or directory\n")


@pytest.mark.parametrize("services", [["s3,redshift"], ["s3", "redshift"]])
def test_services_are_added_by_commas_and_by_repetition(services: list[str], temporary: Path) -> None:
    options = [part for service in services for part in ("--service", service)]
    script = 'test -n "$AWS_ENDPOINT_URL" -a -n "$TARGET_REDSHIFT_PORT"'
    command = [LOCAL_CLOUD, "run", *options, "--", "sh", "-c", script]
    assert subprocess.run(command, env=os.environ | {"TMPDIR": str(temporary)}, check=False).returncode == 0


def test_modules_of_the_folder_do_not_replace_those_of_python(temporary: Path, tmp_path: Path) -> None:
    for name in ("typing.py", "json.py", "queue.py"):
        (tmp_path / name).write_text("raise SystemExit('not the module of Python')")
    command = [LOCAL_CLOUD, "run", "--service", "s3,redshift,flightsql", "--", "true"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"TMPDIR": str(temporary)}, check=False, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_faults_that_cannot_be_understood(start: Start, tmp_path: Path) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text('[{"action": "explode"}]')
    process = start("run", "--faults", str(faults), "--", "true")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "rule 1: unknown action 'explode'" in stderr
    assert len(stderr.splitlines()) == 1


@linux
def test_what_the_command_leaves_running_ends_with_it(start: Start) -> None:
    code, stdout, _ = run(start, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
    assert code == 0
    assert int(stdout) not in running()


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_command_and_all_ends(start: Start, temporary: Path, number: signal.Signals) -> None:
    process = start("run", "--", "sh", "-c", "sleep 1000 & echo started; exec sleep 1000")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    family = descendants(process.pid)
    assert len(family) >= 4  # S3, the guard, two sleeps
    process.send_signal(number)
    assert process.wait(PATIENCE) == 128 + number
    assert not family & set(running())
    assert not list(temporary.iterdir())


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_prints_the_environment_and_ends_on_a_signal(start: Start, temporary: Path, number: signal.Signals) -> None:
    process = start("up", AWS_PROFILE="mine")
    assert process.stderr is not None
    assert "ready" in process.stderr.readline()
    family = descendants(process.pid)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "unset AWS_PROFILE\n" in stdout
    exported = subprocess.run(["sh", "-c", stdout + "env"], capture_output=True, text=True, check=True).stdout
    assert "AWS_SECRET_ACCESS_KEY=testtesttest\n" in exported
    assert not family & set(running())
    assert not list(temporary.iterdir())


@linux
@pytest.mark.parametrize("action", ["run", "up"])
def test_kill_9_leaves_no_process_port_or_file(start: Start, temporary: Path, action: str) -> None:
    command = ["--", "sh", "-c", "sleep 1000 & sleep 1000 & sleep 1000"] if action == "run" else []
    process = start(action, "--latency-ms", "1", *command)
    wait_until(
        lambda: len(descendants(process.pid)) >= (7 if action == "run" else 2), or_else="not all processes started"
    )
    if action == "up":
        assert process.stderr is not None
        process.stderr.readline()
    family = descendants(process.pid)
    assert listening(family) == {"0100007F"}  # only 127.0.0.1
    process.kill()
    wait_until(lambda: not family & set(running()), or_else="processes outlive local-cloud")
    wait_until(lambda: not list(temporary.iterdir()), or_else="files outlive local-cloud")


@linux
def test_kill_9_while_services_start(start: Start, temporary: Path) -> None:
    process = start("run", "--", "true")
    wait_until(lambda: descendants(process.pid), or_else="no service was started")
    family = descendants(process.pid)
    process.kill()
    wait_until(lambda: not family & set(running()), or_else="processes outlive local-cloud")
    wait_until(lambda: not list(temporary.iterdir()), or_else="files outlive local-cloud")


@linux
def test_ctrl_c_at_a_terminal_reaches_the_command_alone(temporary: Path) -> None:
    script = "trap 'echo interrupted; exit 7' INT; echo started; read line; echo $line; read line"
    inside = [str(LOCAL_CLOUD), "run", "--service", "s3", "--", "sh", "-c", script]
    code = f"import os, pty; os._exit(os.waitstatus_to_exitcode(pty.spawn({inside!r})))"
    terminal = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    assert terminal.stdin is not None
    assert terminal.stdout is not None
    try:
        assert terminal.stdout.readline() == "started\n"
        terminal.stdin.write("typed\n")
        terminal.stdin.flush()
        assert [terminal.stdout.readline() for _ in range(2)] == ["typed\n", "typed\n"]  # the echo, and the command's
        terminal.stdin.write("\x03")
        terminal.stdin.flush()
        assert "interrupted" in terminal.stdout.readline()
        assert terminal.wait(PATIENCE) == 7
    finally:
        terminal.kill()
        terminal.communicate()


def test_data_is_kept_in_a_directory(start: Start, tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    client = "import boto3; s3 = boto3.client('s3'); at = {'Bucket': 'stage', 'Key': 'a/b'}; "
    write = "s3.put_object(Body=b'x', **at); print(s3.head_object(**at)['LastModified'])"
    read = "print(s3.head_object(**at)['LastModified']); s3.get_object(**at)"
    outputs = []
    for code in (write, read):
        process = start("run", "--data-dir", folder, "--", sys.executable, "-c", client + code)
        outputs.append(process.communicate(timeout=60)[0])
        assert process.returncode == 0
    assert outputs[0] == outputs[1]


def test_a_service_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    code = "import sys; print('cannot bind 127.0.0.1:80: in use', file=sys.stderr); sys.exit(3)"
    with pytest.raises(LocalCloudError, match=r"(?s)local s3 ended at once with exit code 3.*cannot bind 127.0.0.1:80"):
        Service("s3", [sys.executable, "-c", code], log=tmp_path / "log")


def test_a_service_that_never_answers_is_ended(tmp_path: Path) -> None:
    code = "echo thinking >&2; exec cat"  # a shell starts long before a Python process
    with pytest.raises(LocalCloudError, match=r"(?s)local s3 did not answer within 3 s.*thinking"):
        Service("s3", ["sh", "-c", code], log=tmp_path / "log", timeout=3)
