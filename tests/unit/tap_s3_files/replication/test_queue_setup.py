"""The queue that `setup-queue` makes: its policy and the notifications of buckets keep what others have set."""

from __future__ import annotations

import json

import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import Url
from tap_s3_files.sqs import QueueSetup, prefixes_of

SETUP = QueueSetup("events", "eu-west-1", "123456789012", {"shop": ["in/", "out/"], "all": [""]})


def paths(*texts: str) -> list[Url]:
    return [Url.parse(text) for text in texts]


def test_a_prefix_within_another_is_left_out_as_s3_refuses_both() -> None:
    found = prefixes_of(paths("s3://a/in/*.csv", "s3://a/in/{date:%Y}/*.gz", "s3://a/x.csv", "s3://b/**", "s3://b/c/"))
    assert found == {"a": ["in/", "x.csv"], "b": [""]}


def test_only_s3_sends_events() -> None:
    with pytest.raises(ConfigError, match=r"^gs://b/x is not on S3; only buckets of S3 send events to a queue$"):
        prefixes_of(paths("gs://b/x"))


def test_a_queue_keeps_statements_and_a_redrive_policy_of_others() -> None:
    other = {"Sid": "other", "Effect": "Deny"}
    first = SETUP.attributes({"Policy": json.dumps({"Version": "2012-10-17", "Statement": [other]})})
    second = SETUP.attributes({**first, "RedrivePolicy": '{"maxReceiveCount": 3}'})
    statements = json.loads(second["Policy"])["Statement"]
    assert [s["Sid"] for s in statements] == ["other", "tap-s3-files"]
    assert statements[1]["Condition"]["ArnEquals"]["aws:SourceArn"] == ["arn:aws:s3:::all", "arn:aws:s3:::shop"]
    assert second["RedrivePolicy"] == '{"maxReceiveCount": 3}'
    assert json.loads(first["RedrivePolicy"])["deadLetterTargetArn"].endswith(":events-dead-letters")


def test_notifications_of_others_stay_and_those_of_an_earlier_run_are_replaced() -> None:
    others = {"TopicConfigurations": [{"Id": "t"}], "QueueConfigurations": [{"Id": "q"}], "ResponseMetadata": {}}
    once = SETUP.notifications("shop", others)
    assert SETUP.notifications("shop", once) == once
    assert once["TopicConfigurations"] == [{"Id": "t"}]
    assert [c["Id"] for c in once["QueueConfigurations"]] == ["q", "tap-s3-files events 1", "tap-s3-files events 2"]
    assert "Filter" not in SETUP.notifications("all")["QueueConfigurations"][0]


def test_arns_are_of_the_regions_partition() -> None:
    setup = QueueSetup("q", "cn-north-1", "1", {"b": [""]}, "aws-cn")
    assert setup.arn("q") == "arn:aws-cn:sqs:cn-north-1:1:q"
    assert setup.policy()["Statement"][0]["Condition"]["ArnEquals"] == {"aws:SourceArn": ["arn:aws-cn:s3:::b"]}
