"""A queue for the events of buckets: what its messages name, and the command that makes one.

A message is deleted once STATE is behind its objects.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import unquote_plus, urlsplit

import click

from singer_arrow.errors import ConfigError, CredentialsError, DataError, NotFoundError, ServiceError
from singer_arrow.runtime.threads import repeat_every
from singer_arrow.storage import aws
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url, glob_prefix
from tap_s3_files.paths import ObjectFilter
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_model import Segment, Version, in_window, version_of
from tap_s3_files.settings import Replication

# A queue of SQS: receive, keep invisible while a message is worked on, delete, release. The one place of its errors.
#
# Only what is deleted is gone. Whatever else happens, also to this process, makes a message come again.

MAX_BATCH = 10
"""Messages of one request, as SQS allows."""
MAX_WAIT = 20
"""Seconds that SQS waits for a message at most."""
PARALLEL = 4
"""Requests at once."""
_REGION = re.compile(r"(?:^|\.)sqs[.-](?:fips\.)?([a-z]{2,}(?:-[a-z]+)+-\d)\.|^([a-z]{2,}(?:-[a-z]+)+-\d)\.queue\.")
_DENIED = ("AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "UnrecognizedClient")


@dataclass(frozen=True, slots=True)
class Message:
    """A message: `receipt` is what deletes it, `sent` when it was sent, in seconds since 1970."""

    id: str
    receipt: str
    body: str
    sent: float


class Queue:
    """One queue. Messages that were received are kept invisible to others until they are let go.

    The endpoint is that of its URL; `visibility` is in seconds, until a message is visible again if this process has
    died.
    """

    def __init__(self, url: str, options: AwsOptions, *, visibility: int) -> None:
        from botocore.config import Config

        self.url, self._visibility, parts = url, visibility, urlsplit(url)
        with queue_errors(url):
            boto = aws.session(options)
            self._client = boto.client(
                "sqs",
                endpoint_url=f"{parts.scheme}://{parts.netloc}",
                region_name=region_of(url) or options.region or boto.region_name or "us-east-1",
                config=Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60),
            )
        self._held: dict[str, Message] = {}
        self._lock = threading.Lock()

    def receive(self, wait: int) -> list[Message]:
        """Return up to ten messages, after at most `wait` seconds; they are held."""
        with queue_errors(self.url):
            answer = self._client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=MAX_BATCH,
                WaitTimeSeconds=min(wait, MAX_WAIT),
                VisibilityTimeout=self._visibility,
                AttributeNames=["SentTimestamp"],
            )
        got = [
            Message(
                m["MessageId"],
                m["ReceiptHandle"],
                m["Body"],
                int(m.get("Attributes", {}).get("SentTimestamp", 0)) / 1000,
            )
            for m in answer.get("Messages", ())
        ]
        with self._lock:
            self._held.update((m.id, m) for m in got)
        return got

    def wait(self, seconds: float) -> None:
        """Return once the queue has a message, which is visible again then, or after so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if found := self.receive(math.ceil(left)):
                self.release(found)
                return

    def approximate_size(self, *, held: bool = False) -> int:
        """Return the approximate number of waiting messages; `held`: of those that runs have received, instead."""
        name = "ApproximateNumberOfMessagesNotVisible" if held else "ApproximateNumberOfMessages"
        with queue_errors(self.url):
            answer = self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=[name])
        return int(answer["Attributes"][name])

    def named(self) -> set[Url]:
        """Return the objects that waiting messages name; all messages are visible again then."""
        found = dict[str, Message]()
        with self.heartbeat():
            while got := [m for m in self.receive(1) if m.id not in found]:  # a request that waits asks all servers
                found.update((m.id, m) for m in got)
        self.release(found.values())
        return {url for m in found.values() for event in parse_events(m.body) or () for url in event.urls}

    def delete(self, messages: Iterable[Message]) -> None:
        """Delete messages. A warning counts failures: those come again, and their objects are known by then."""

        def act(some: Sequence[Message]) -> int:
            entries = [{"Id": str(n), "ReceiptHandle": m.receipt} for n, m in enumerate(some)]
            return len(self._client.delete_message_batch(QueueUrl=self.url, Entries=entries).get("Failed", ()))

        if failed := self._each_ten(messages, act):
            logger.warning("%d messages of %s could not be deleted; they come again", failed, self.url)

    def release(self, messages: Iterable[Message]) -> None:
        """Show messages to others again at once, as well as that can be done."""
        self._each_ten(messages, lambda some: self._change(some, 0))

    def drop(self, messages: Iterable[Message]) -> None:
        """Hold messages no longer: they come again when their time is over."""
        with self._lock:
            for message in messages:
                self._held.pop(message.id, None)

    def heartbeat(self) -> AbstractContextManager[None]:
        """Keep the messages that are held invisible while a block runs."""

        def keep_invisible() -> None:
            with self._lock:
                held = list(self._held.values())
            failed = self._each_ten(held, lambda some: self._change(some, self._visibility), keep=True)
            if failed:
                logger.warning("%d messages of %s could not be kept invisible", failed, self.url)

        return repeat_every(self._visibility / 3, keep_invisible, name="heartbeat")

    def _each_ten(
        self, messages: Iterable[Message], act: Callable[[Sequence[Message]], int], *, keep: bool = False
    ) -> int:
        """Do something with messages, ten by request; how many of them failed."""
        rest = iter({m.id: m for m in messages}.values())
        failed = 0
        while some := list(islice(rest, MAX_BATCH)):
            try:
                with queue_errors(self.url):
                    failed += act(some)
            except (NotFoundError, CredentialsError, ServiceError) as error:
                logger.warning("%s", error)
                failed += len(some)
            if not keep:
                self.drop(some)
        return failed

    def _change(self, some: Sequence[Message], seconds: int) -> int:
        entries = [{"Id": str(n), "ReceiptHandle": m.receipt, "VisibilityTimeout": seconds} for n, m in enumerate(some)]
        answer = self._client.change_message_visibility_batch(QueueUrl=self.url, Entries=entries)
        return len(answer.get("Failed", ()))


def region_of(url: str) -> str | None:
    """Return the region that a queue's URL names."""
    found = _REGION.search(urlsplit(url).hostname or "")
    return (found[1] or found[2]) if found else None


@contextmanager
def queue_errors(url: str, *, service: str = "the queue") -> Iterator[None]:
    """Translate botocore's errors of requests for a queue, or for something else of AWS."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield
    except NoCredentialsError:
        msg = f"{url}: no AWS credentials were found; set aws.profile or aws.access_key_id, or the environment"
        raise CredentialsError(msg) from None
    except ClientError as error:
        code, text = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        words = " ".join(f"{code}: {text}".split())[:300]
        if "NonExistentQueue" in code or "QueueDoesNotExist" in code:
            raise NotFoundError(f"The queue {url} does not exist; check replication.queue_url and its region") from None
        if any(name in code for name in _DENIED):
            msg = f"{url}: access is denied ({words}); check the credentials and what they allow"
            raise CredentialsError(msg) from None
        raise ServiceError(f"{url}: {service} did not answer as it should ({words}); try again") from None
    except (BotoCoreError, OSError) as error:
        msg = f"{url}: {service} did not answer ({' '.join(str(error).split())[:300]}); try again"
        raise ServiceError(msg) from None


# Parse messages of S3 about objects. Pure.
#
# S3 sends events in three shapes: its own event notifications, the same within an envelope of SNS, and events of
# EventBridge. https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to an object.

    `urls` are what its key may mean, the likeliest first: notifications encode keys, EventBridge does not, and
    what imitates EventBridge may.
    """

    urls: tuple[Url, ...]
    created: bool


def parse_events(body: str) -> tuple[Event, ...] | None:
    """Parse the events of a message, in order; empty for a test event; None if it is no message of S3."""
    try:
        return tuple(_events(json.loads(body)))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _events(message: Mapping[str, Any]) -> Iterator[Event]:
    if message.get("Type") == "Notification":  # of SNS
        yield from _events(json.loads(message["Message"]))
    elif message.get("Event") == "s3:TestEvent":
        return
    elif message.get("source") == "aws.s3":  # of EventBridge
        detail = message["detail"]
        key, created = detail["object"]["key"], message["detail-type"] == "Object Created"
        yield _event(detail, dict.fromkeys((key, unquote_plus(key))), created=created)
    else:
        for record in message["Records"]:
            created = "ObjectCreated:" in record["eventName"]
            yield _event(record["s3"], [unquote_plus(record["s3"]["object"]["key"])], created=created)


def _event(detail: Mapping[str, Any], keys: Iterable[str], *, created: bool) -> Event:
    bucket = detail["bucket"]["name"]
    if not isinstance(bucket, str) or not bucket:
        raise ValueError
    urls = tuple(Url("s3", bucket, key) for key in keys)
    for url in urls:
        str(url).encode()  # UnicodeEncodeError, a ValueError: half a character, which JSON allows and no key has
    return Event(urls, created)


# New objects by a queue: messages are gathered, what they name is planned, and only then are they deleted.
#
# From the moment that a segment is durable it is the queue: a tap never learns whether the target committed, so the
# next start follows the segments that its STATE has not passed. A message that is lost sight of before that comes
# again.

logger = logging.getLogger("tap-s3-files")
MAX_MESSAGES = 2000
"""Messages that are gathered before what they name is planned."""
HEADS_AT_ONCE = 16


class SqsEvents:
    """One queue, and the streams of a run that share it, with their plans.

    Messages for `others`, the other streams of the settings, are never deleted.
    """

    def __init__(
        self,
        queue: Queue,
        plans: Mapping[str, StreamPlan],
        others: Sequence[ObjectFilter],
        storage: Storage,
        settings: Replication,
    ) -> None:
        self.plans = plans
        self._queue, self._others, self._storage, self._settings = queue, others, storage, settings
        self._kept: dict[str, Message] = {}
        self._counts = Counter[str]()  # what became of messages and of the objects that they named
        self._began = time.time()
        self._over = False

    def waves(self, stream: str) -> Iterator[Iterator[Segment]]:
        """Yield the segments of a stream in portions: the unfinished ones, then those of each round of messages.

        Where there are unfinished ones, the messages that wait are planned first: an object that got a former content
        back is then sent once, by its last task.

        Ends when the queue was dry for `max_wait_seconds`. Where several streams share it, it ends after the messages
        that were sent before the run began: the streams that wait for their turn must get one.
        """
        plan = self.plans[stream]
        if plan.plans_first and not self._over:
            for segment in plan.unfinished_segments():  # an error must come before messages are deleted
                for task in segment.tasks:
                    plan.selects(segment, task)
            with self._queue.heartbeat():
                while self._round(is_first=True):
                    pass
        for _ in plan.queued_segments():  # they follow the unfinished ones in the log
            pass
        yield plan.unfinished_segments(with_new=True)
        while not self._over:
            asked = time.time()
            with self._queue.heartbeat():
                self._over = not self._round()
            yield plan.queued_segments()
            if self._over:
                until = datetime.fromtimestamp(asked if len(self.plans) == 1 else self._began, UTC)
                for each in self.plans.values():
                    each.complete_until = min(until, each.object_filter.window[1] or until)
                self._queue.release(self._kept.values())
                counts, left = self._counts, "deleted" if self._settings.delete_unmatched else "left in the queue"
                texts = {
                    "known": "were known already",
                    "gone": "are gone",
                    "foreign": f"messages were of no stream of this run and were {left}",
                    "unreadable": "could not be read and were left to the dead-letter queue",
                }
                parts = [f"{counts['messages']:,} messages", f"{counts['planned']:,} objects planned"]
                parts += [f"{counts[kind]:,} {text}" for kind, text in texts.items() if counts[kind]]
                logger.info("%s: %s", self._queue.url, ", ".join(parts))

    def _round(self, *, is_first: bool = False) -> bool:
        """Take what is there; whether there may be more to wait for.

        `is_first`: nothing was sent so far, so that messages from before the run are taken alone, without a wait.
        """
        messages = self._gather(0 if is_first else self._settings.max_wait_seconds)
        if not messages:
            return False
        # What is new to a stream, the messages to delete and those to keep
        new: dict[str, dict[Version, ObjectInfo]] = {}
        done, left = list[Message](), list[Message]()
        parsed = [(m, parse_events(m.body)) for m in messages]
        plans_of = {
            e: [r for r in self.plans.values() if _concerns(e, r.object_filter)]
            for _, events in parsed
            for e in events or ()
        }
        with ThreadPoolExecutor(HEADS_AT_ONCE) as pool:
            taken = [event for event, receivers in plans_of.items() if receivers]
            found_objects = dict(zip(taken, pool.map(self._head, taken), strict=True))
        for message, events in parsed:
            if events is None or any(isinstance(found_objects.get(e), DataError) for e in events):
                reason = next((str(x) for e in events or () if isinstance(x := found_objects.get(e), DataError)), None)
                logger.warning(
                    "Message %s was left to the dead-letter queue: %s", message.id, reason or "it is no event of S3"
                )
                self._counts["unreadable"] += 1
                left.append(message)
                continue
            settled = [[self._settle(new, r, found_objects[e]) for r in plans_of[e]] for e in events]
            of_others = any(_concerns(e, object_filter) for e in events for object_filter in self._others)
            is_outside = any(not all(of_event) for of_event in settled)
            is_unmatched = any(not of_event for of_event in settled) and not self._settings.delete_unmatched
            if of_others or is_outside or is_unmatched:
                self._counts["foreign"] += not any(map(any, settled))
                left.append(message)  # what is planned of it is known when it comes again
            else:
                done.append(message)
        for stream, found in new.items():
            self.plans[stream].queue(found.values())
            self._counts["planned"] += len(found)
        self._queue.delete(done)
        self._queue.drop(left)
        self._kept.update((m.id, replace(m, body="")) for m in left)
        self._counts["messages"] += len(messages)
        waits = len(self.plans) == 1 and not is_first
        return waits or any(m.sent < self._began for m in messages)

    def _gather(self, seconds: float) -> list[Message]:
        end = time.monotonic() + seconds
        while True:
            wait = math.ceil(end - time.monotonic())
            got = self._fresh(self._queue.receive(min(max(wait, 1), MAX_WAIT)))
            if got or time.monotonic() >= end:
                break
        with ThreadPoolExecutor(PARALLEL) as pool:
            while got and len(got) < MAX_MESSAGES:
                answers = pool.map(self._queue.receive, [0] * PARALLEL)
                more = self._fresh([m for answer in answers for m in answer])
                if not more:  # which does not mean that the queue is empty
                    break
                got += more
        return list({m.id: m for m in got}.values())

    def _fresh(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that were not read and left before in this run."""
        again = [m for m in messages if m.id in self._kept]
        self._queue.drop(again)
        self._kept.update((m.id, replace(m, body="")) for m in again)
        return [m for m in messages if m.id not in self._kept]

    def _settle(self, found: dict[str, dict[Version, ObjectInfo]], plan: StreamPlan, info: object) -> bool:
        """Return whether a stream needs this object of a message no more, and plan it if it is new."""
        new = found.setdefault(plan.object_filter.stream, {})
        if not isinstance(info, ObjectInfo):
            return True
        if not in_window(info, *plan.object_filter.window):
            return False
        version = version_of(info)
        if version in new or plan.is_known(info):
            self._counts["known"] += 1
        else:
            new[version] = info
        return True

    def _head(self, event: Event) -> ObjectInfo | DataError | None:
        """Return the object of an event as it is now; None if there is none; the error if its key cannot be used."""
        for url in event.urls:
            if url.key.endswith("/"):  # a folder marker
                return None
            try:
                return self._storage.head(url)
            except NotFoundError:
                continue
            except DataError as error:
                return error
        logger.warning("%s was deleted since its event was sent", event.urls[0])
        self._counts["gone"] += 1
        return None


def _concerns(event: Event, object_filter: ObjectFilter) -> bool:
    """Return whether an event names a new object of a stream."""
    return event.created and any(object_filter.matches(url) for url in event.urls)


# The command `tap-s3-files setup-queue PATH...`: a queue with a dead-letter queue that gets the events of buckets.

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
            raise ConfigError(f"{path} is not on S3; only buckets of S3 send events to a queue")
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
    options = AwsOptions.from_config(settings.get("aws") or {})
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
