"""Progress of targets on a terminal: percentages rise to 100."""

from __future__ import annotations

import json
from pathlib import Path

from local_settings import ONE_EACH
from pseudo_terminal import percentages, run_on_terminal
from singer_lines import Batches, lines, some_batches
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs


def test_percentages_of_a_target_rise_to_100(
    warehouse: Warehouse, cloud: Cloud, batch: Batches, tmp_path: Path
) -> None:
    file = tmp_path / "target.json"
    file.write_text(json.dumps(warehouse.config | ONE_EACH | {"max_parallel_loads": 1}))
    env = {name: text for name, text in cloud.environ().items() if not name.startswith("TARGET_")}
    command = Programs(env, tmp_path).command(warehouse.program, config=file)
    code, shown = run_on_terminal(command, env, stdin=lines(some_batches(batch, 12)).encode())
    assert code == 0, shown
    found = percentages(shown)
    assert found == sorted(found)
    assert found[-1] == 100
    assert "/12 batches loaded" in shown
    assert "Loaded rows: 24 rows" in shown
