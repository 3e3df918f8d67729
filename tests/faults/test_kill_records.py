"""A target that reads RECORD lines is killed: all rows before its last STATE are in the table."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from singer_lines import lines, record, schema, state, states
from waiting import wait_until
from warehouses import Warehouse

from local_cloud.programs import Programs

ROWS, STEP = 20_000, 500


def test_a_killed_target_has_loaded_the_rows_that_its_state_covers(
    warehouse: Warehouse, cold: Programs, tmp_path: Path
) -> None:
    messages = [schema()]
    for number in range(ROWS):
        messages.append(record(id=number, name=f"name {number}"))
        if number % STEP == STEP - 1:
            messages.append(state(number + 1))
    text = lines(messages).encode()
    settings = {"max_batch_age_seconds": 0.2}
    command = cold.command(warehouse.program, config=["ENV", settings])

    def has_state() -> bool:
        return b"\n" in (tmp_path / "out").read_bytes()

    with (tmp_path / "out").open("wb") as out:
        target = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL, env=cold.env)
        assert target.stdin is not None
        step, after = len(text) // 100, random.Random(warehouse.name).randrange(3, 30)
        for start in range(0, len(text), step):
            target.stdin.write(text[start : start + step])  # the input ends in the middle of a line
            target.stdin.flush()
            time.sleep(0.1)
            after -= has_state()  # number of pieces after the first STATE
            if not after:
                break
        wait_until(has_state)
        target.kill()
        target.stdin.close()
        target.wait(60)
    numbers = states((tmp_path / "out").read_text())
    done = numbers[-1]
    assert warehouse.one(f"SELECT COUNT(DISTINCT id) FROM {{rows}} WHERE id < {done}") == (done,)
    rest = [schema(), *(m for m in messages[1:] if m["type"] == "RECORD" and m["record"]["id"] >= done), state(ROWS)]
    assert cold(warehouse.program, stdin=lines(rest), config=["ENV", {}]).check().stdout == f'{{"n":{ROWS}}}\n'
    assert warehouse.one("SELECT COUNT(DISTINCT id), MIN(id), MAX(id) FROM {rows}") == (ROWS, 0, ROWS - 1)
