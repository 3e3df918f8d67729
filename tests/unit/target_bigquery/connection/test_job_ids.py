"""A job that BigQuery answers with must be the one that was asked for: by its id runs know what is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from small_network import Serving

from local_cloud.loopback import LoopbackServer
from singer_arrow.errors import LoadError
from target_bigquery.client import BigQuery
from target_bigquery.settings import Settings

TABLE = {"projectId": "p", "datasetId": "d", "tableId": "t"}
KINDS = {"query": {"query": "SELECT 1"}, "load": {"destinationTable": TABLE}, "copy": {"destinationTable": TABLE}}
FIELDS = [{"name": "id", "type": "INTEGER"}]


class _Handler(BaseHTTPRequestHandler):
    """Answers each request for a job with the same job."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        job = {
            "jobReference": {"projectId": "p", "jobId": "another"},
            "configuration": KINDS,
            "status": {"state": "DONE"},
        }
        data = json.dumps(job).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if "uploadType=resumable" in self.path:
            self.send_header("Location", f"http://{self.headers['Host']}/upload/there")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Service(Serving):
    def __init__(self) -> None:
        self._server = LoopbackServer(_Handler)
        self.url = self._server.url


@pytest.mark.parametrize(
    "ask",
    [
        lambda jobs, path: jobs.load(path, "t", file_format="jsonl", fields=FIELDS, job_id="asked"),
        lambda jobs, _: jobs.load(["gs://b/x"], "t", file_format="jsonl", fields=FIELDS, job_id="asked"),
        lambda jobs, _: jobs.query("DELETE FROM t WHERE TRUE", what="Deleting"),
        lambda jobs, _: jobs.copy("s", "t", what="Copying"),
        lambda jobs, _: jobs.occupy("asked"),
        lambda jobs, _: jobs.claim("asked", "projects/p/s"),
        lambda jobs, _: jobs.job("asked"),
        lambda jobs, _: jobs.wait("asked", "Waiting"),
    ],
    ids=["upload", "load", "query", "copy", "occupy", "claim", "read", "wait"],
)
@pytest.mark.full
def test_another_job_than_the_one_asked_for_is_an_error(
    ask: Callable[[BigQuery, Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("{}")
    with _Service() as service:
        jobs = BigQuery(Settings("p", "d", api_endpoint=service.url))
        with pytest.raises(
            LoadError, match="asked for job .* answers with job another, .*; set api_endpoint"
        ) as caught:
            ask(jobs, path)
        jobs.close()
    assert "\n" not in str(caught.value)
