"""Service models are found as by botocore's own loader, without opening the folders of other services."""

from __future__ import annotations

import os
from pathlib import Path

import botocore.session
import pytest
from botocore.exceptions import UnknownServiceError
from botocore.loaders import JSONFileLoader

from singer_arrow.storage import aws
from singer_arrow.storage.aws import AwsOptions

SERVICES = ["s3", "sqs", "sns", "sts", "redshift"]


@pytest.mark.parametrize("service", SERVICES)
def test_models_are_those_of_botocore(service: str) -> None:
    ours = aws.session(AwsOptions()).core.get_component("data_loader")
    usual = botocore.session.get_session().get_component("data_loader")
    assert ours.search_paths == usual.search_paths
    for kind in ("service-2", "endpoint-rule-set-1", "paginators-1"):
        assert ours.load_service_model(service, kind) == usual.load_service_model(service, kind)


def test_a_folder_of_models_is_searched_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own" / "2020-01-01").mkdir(parents=True)
    (tmp_path / "own" / "2020-01-01" / "service-2.json").write_text('{"metadata": {}}')
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    loader = aws.session(AwsOptions()).core.get_component("data_loader")
    assert loader.load_service_model("own", "service-2") == {"metadata": {}}
    with pytest.raises(UnknownServiceError, match="Unknown service: 'none'"):
        loader.load_service_model("none", "service-2")


@pytest.mark.full
def test_a_client_opens_no_other_services_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: set[str] = set()
    exists, listdir = JSONFileLoader.exists, os.listdir

    def seen_exists(self: JSONFileLoader, path: str) -> bool:
        opened.add(path)
        return bool(exists(self, path))

    def seen_listdir(path: str = ".") -> list[str]:
        opened.add(path)
        return listdir(path)

    monkeypatch.setattr(JSONFileLoader, "exists", seen_exists)
    monkeypatch.setattr(os, "listdir", seen_listdir)
    aws.session(AwsOptions()).client("s3", region_name="us-east-1")
    assert any("/s3" in path for path in opened)
    assert [path for path in opened if "/data/" in path and "/data/s3" not in path] == []
