"""The sample data is written to the local cloud and never to a real account."""

import pytest

from local_cloud.cli import main


@pytest.mark.parametrize("present", ["LOCAL_CLOUD_SOURCE_BUCKET", "AWS_ENDPOINT_URL"])
def test_seed_wants_a_local_cloud_around_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], present: str
) -> None:
    monkeypatch.delenv("LOCAL_CLOUD_SOURCE_BUCKET", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv(present, "http://127.0.0.1:9")
    assert main(["seed"]) == 1
    assert capsys.readouterr().err.startswith("local-cloud: seed needs AWS_ENDPOINT_URL and a bucket")


def test_an_unknown_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--service", "s3,oracle", "--", "true"]) == 1
    error = "local-cloud: unknown service oracle; there are s3, bigquery, redshift, flightsql, dask\n"
    assert capsys.readouterr().err == error


def test_faults_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--faults", "/no/such.json", "--", "true"]) == 1
    assert capsys.readouterr().err == "local-cloud: cannot read the faults /no/such.json: No such file or directory\n"
