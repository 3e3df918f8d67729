"""Without what Windows lacks, every module can be imported, and each executable refuses to run in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_POSIX = """
import asyncio, concurrent.futures.process, importlib, multiprocessing.popen_spawn_posix, os, pkgutil
import getpass, shutil, signal, subprocess, sys, tarfile  # the standard library chose its parts for this system

for name in ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for name in ("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGTSTP", "SIGUSR1"):
    delattr(signal, name)
for name in ("fork", "geteuid", "getpgid", "getuid", "killpg", "mkfifo", "setsid", "O_NOFOLLOW"):
    delattr(os, name)
"""
IMPORT_ALL = """
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
"""
RUN = """
main = getattr(importlib.import_module(sys.argv[1]), "main")
sys.platform = "win32"
sys.argv = [sys.argv[2], "--about"]
main()
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that lacks the modules, signals and functions of POSIX."""
    command = [sys.executable, "-c", WITHOUT_POSIX + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "package", ["singer_arrow", "tap_s3_files", "tap_flight_sql", "target_bigquery", "target_redshift"]
)
def test_every_module_can_be_imported(package: str) -> None:
    ran = python(IMPORT_ALL, package)
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("tap_s3_files.__main__", "tap-s3-files"),
        ("tap_flight_sql.__main__", "tap-flight-sql"),
        ("target_bigquery.__main__", "target-bigquery"),
        ("target_redshift.__main__", "target-redshift"),
        ("local_cloud.__main__", "local-cloud"),
    ],
)
def test_each_executable_refuses_windows_in_one_line(module: str, name: str) -> None:
    ran = python(RUN, module, name)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr == f"{name}: Windows is not supported: run it in WSL or in a container\n"
