"""What the tap says while types are inferred and rows are read, if that takes long."""

from __future__ import annotations

import re
from typing import Any

from local_cloud.faults.client import FaultProxy
from local_cloud.programs import Programs


def test_inference_that_takes_seconds_says_what_it_waits_for(
    s3: Any, bucket: str, run: Programs, s3_faults: FaultProxy
) -> None:
    for n in range(3):
        s3.put_object(Bucket=bucket, Key=f"in/{n}.jsonl", Body=b'{"id": 1}\n')
    config = {"streams": [{"name": "rows", "path": f"s3://{bucket}/in/*.jsonl"}]}
    fast = run("tap-s3-files", config=["ENV", config], discover=True).check()
    assert "Inferring" not in fast.stderr

    s3_faults.set({"match": r"^GET .*/in/", "delay_ms": 5000})
    slow = run("tap-s3-files", config=["ENV", config], discover=True, env={"AWS_ENDPOINT_URL": s3_faults.url}).check()
    assert re.search(r"Inferring column types of 'rows': 0 of 3 sampled objects read, [23] s", slow.stderr)
    assert fast.stdout == slow.stdout
