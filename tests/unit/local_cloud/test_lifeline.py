"""A child process ends with its parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILD = """
import sys, threading, time
from pathlib import Path
from local_cloud.lifeline import end_with_parent

is_ending = threading.Event()

def last_act():
    is_ending.set()
    time.sleep(0.5)  # the main thread is done by now
    Path(sys.argv[1]).touch()

end_with_parent(last_act)
is_ending.wait()
"""


def test_the_last_act_is_finished_although_the_main_thread_ends(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", CHILD, tmp_path / "done"], stdin=subprocess.DEVNULL, check=True)
    assert (tmp_path / "done").exists()
