"""The command `tap-s3-files setup-queue PATH...`: a queue with a dead-letter queue that gets the events of buckets."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from singer_arrow.errors import ConfigError
from singer_arrow.storage import aws
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.urls import Url, glob_prefix
from tap_s3_files.sqs import queue_errors

SID = "tap-s3-files"
"""Identifies what this command writes into policies and notifications, so that a second run replaces it."""
MAX_RECEIVES = 10
"""Receptions of a message after which SQS moves it to the dead-letter queue; the tap receives foreign ones again."""
DAYS = 14
"""For how many days messages are kept, which is the most that SQS allows."""


@dataclass(frozen=True, slots=True)
class QueueSetup:
    """A queue and its dead-letter queue for objects below some prefixes by bucket; none is part of another.

    `partition` is the group of AWS regions that the region is in, as ARNs have it.
    """

    name: str
    region: str
    account: str
    prefixes: Mapping[str, Sequence[str]]
    partition: str = "aws"

    @property
    def dead_letters(self) -> str:
        """Name of the dead-letter queue."""
        return f"{self.name}-dead-letters"

    def arn(self, name: str) -> str:
        """Return the ARN of a queue of this name."""
        return f"arn:{self.partition}:sqs:{self.region}:{self.account}:{name}"

    def policy(self, existing: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the queue's policy: its other statements, and one that lets the buckets send events."""
        kept = [s for s in (existing or {}).get("Statement", ()) if s.get("Sid") != SID]
        statement = {
            "Sid": SID,
            "Effect": "Allow",
            "Principal": {"Service": "s3.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": self.arn(self.name),
            "Condition": {
                "ArnEquals": {"aws:SourceArn": [f"arn:{self.partition}:s3:::{b}" for b in sorted(self.prefixes)]},
                "StringEquals": {"aws:SourceAccount": self.account},
            },
        }
        return {"Version": "2012-10-17", "Statement": [*kept, statement]}

    def attributes(self, existing: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the attributes of the queue; a redrive policy that it has stays."""
        before = existing or {}
        redrive = {"deadLetterTargetArn": self.arn(self.dead_letters), "maxReceiveCount": MAX_RECEIVES}
        return {
            "MessageRetentionPeriod": str(DAYS * 86_400),
            "RedrivePolicy": before.get("RedrivePolicy") or json.dumps(redrive),
            "Policy": json.dumps(self.policy(json.loads(before.get("Policy") or "{}"))),
        }

    def notifications(self, bucket: str, existing: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the notifications of a bucket: those of others, and the events of its prefixes to the queue."""
        before = {k: v for k, v in (existing or {}).items() if k != "ResponseMetadata"}
        own = f"{SID} {self.name} "
        kept = [c for c in before.get("QueueConfigurations", ()) if not c.get("Id", "").startswith(own)]
        added = [
            {
                "Id": f"{own}{number}",
                "QueueArn": self.arn(self.name),
                "Events": ["s3:ObjectCreated:*"],
                **({"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}} if prefix else {}),
            }
            for number, prefix in enumerate(self.prefixes[bucket], 1)
        ]
        return {**before, "QueueConfigurations": [*kept, *added]}


def prefixes_of(paths: Sequence[Url]) -> dict[str, list[str]]:
    """Return the prefixes of each bucket that paths are below; one that is part of another is left out."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        if path.scheme != "s3":
            msg = f"{path} is not on S3; only buckets of S3 send events to a queue"
            raise ConfigError(msg)
        found[path.bucket].add(glob_prefix(path.key))
    return {
        bucket: [p for p in sorted(all_) if not any(p != other and p.startswith(other) for other in all_)]
        for bucket, all_ in found.items()
    }


def set_up(setup: QueueSetup, client: Callable[[str], Any]) -> str:
    """Create or complete the queues and the notifications, and return the URL of the queue; safe to repeat.

    `client` returns botocore's client of a service.
    """
    sqs, s3 = client("sqs"), client("s3")
    with queue_errors(f"Queue {setup.name}", service="SQS"):
        sqs.create_queue(QueueName=setup.dead_letters)
        url: str = sqs.create_queue(QueueName=setup.name)["QueueUrl"]
        names = ["Policy", "RedrivePolicy"]
        before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names).get("Attributes")
        sqs.set_queue_attributes(QueueUrl=url, Attributes=setup.attributes(before))
    for bucket in setup.prefixes:
        with queue_errors(f"s3://{bucket}, its notifications", service="S3"):
            existing = s3.get_bucket_notification_configuration(Bucket=bucket)
            changed = setup.notifications(bucket, existing)
            s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=changed)
    return url


def setup_queue_command(read_config: Callable[[Sequence[str]], Mapping[str, Any]]) -> click.Command:
    about = "Create an SQS queue with a dead-letter queue, and let buckets send the events of new objects to it."
    apply = "Create and change queues and notifications. Without it, they are printed as JSON, and nothing is changed."
    config = "Settings: a file, or ENV for the environment. `aws` is used, and without PATH the paths of all streams."
    return click.Command(
        "setup-queue",
        callback=partial(_setup_queue, read_config),
        help=about,
        params=[
            click.Argument(["paths"], nargs=-1, metavar="[PATH]..."),
            click.Option(["--name"], default="tap-s3-files", show_default=True, help="Name of the queue."),
            click.Option(["is_applied", "--apply/--print"], default=False, help=apply),
            click.Option(["--config"], multiple=True, help=config, metavar="FILE"),
        ],
    )


def _setup_queue(
    read_config: Callable[[Sequence[str]], Mapping[str, Any]],
    *,
    paths: tuple[str, ...],
    name: str,
    is_applied: bool,
    config: tuple[str, ...],
) -> None:
    settings = read_config(config)
    of_streams = (stream.get("path") or [] for stream in settings.get("streams") or [])
    given = paths or [p for some in of_streams for p in ([some] if isinstance(some, str) else some)]
    prefixes = prefixes_of([Url.parse(path) for path in given])
    if not prefixes:
        msg = "No path is given; name one (tap-s3-files setup-queue s3://bucket/folder/), or a --config with streams"
        raise ConfigError(msg)
    options = AwsOptions.from_config(settings.get("aws"))
    session = aws.session(options)
    region = options.region or aws.bucket_region(session, next(iter(prefixes)), anonymous=False)
    endpoint = {"endpoint_url": options.endpoint_url} if options.endpoint_url else {}
    with queue_errors("The account of the credentials", service="STS"):
        sts = session.client("sts", region_name=region, **endpoint)
        account = str(sts.get_caller_identity()["Account"])
    setup = QueueSetup(name, region, account, prefixes, session.core.get_partition_for_region(region))
    if not is_applied:
        attributes = {k: json.loads(v) for k, v in setup.attributes().items()}
        shown = {
            "queues": {setup.dead_letters: {}, setup.name: attributes},
            "notifications": {bucket: setup.notifications(bucket) for bucket in setup.prefixes},
        }
        click.echo(json.dumps(shown, indent=2))
        return
    url = set_up(setup, partial(session.client, region_name=region, **endpoint))
    click.echo(json.dumps({"replication": {"method": "sqs", "queue_url": url}}))
