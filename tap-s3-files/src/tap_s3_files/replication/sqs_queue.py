"""A queue of SQS: receive, keep invisible while a message is worked on, delete, release. The one place of its errors.

Only what is deleted is gone. Whatever else happens, also to this process, makes a message come again.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from singer_arrow.errors import CredentialsError, NotFoundError, ServiceError
from singer_arrow.runtime.threads import repeat_every
from singer_arrow.storage import aws
from singer_arrow.storage.aws_options import AwsOptions

logger = logging.getLogger("tap-s3-files")
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
        self.url, self._visibility = url, visibility
        with queue_errors(url):
            self._client = _client(url, options)
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

    def receive_many(self) -> list[Message]:
        """Receive available messages by several requests at once; none does not mean that the queue is empty."""
        with ThreadPoolExecutor(PARALLEL) as pool:
            return [m for got in pool.map(self.receive, [0] * PARALLEL) for m in got]

    def approximate_size(self) -> int:
        """Return the approximate number of waiting messages."""
        name = "ApproximateNumberOfMessages"
        with queue_errors(self.url):
            answer = self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=[name])
        return int(answer["Attributes"][name])

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


def _client(url: str, options: AwsOptions) -> Any:
    from botocore.config import Config

    boto = aws.session(options)
    parts = urlsplit(url)
    return boto.client(
        "sqs",
        endpoint_url=f"{parts.scheme}://{parts.netloc}",
        region_name=region_of(url) or options.region or boto.region_name or "us-east-1",
        config=Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60),
    )


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
            msg = f"The queue {url} does not exist; check replication.queue_url and its region"
            raise NotFoundError(msg) from None
        if any(name in code for name in _DENIED):
            msg = f"{url}: access is denied ({words}); check the credentials and what they allow"
            raise CredentialsError(msg) from None
        msg = f"{url}: {service} did not answer as it should ({words}); try again"
        raise ServiceError(msg) from None
    except (BotoCoreError, OSError) as error:
        msg = f"{url}: {service} did not answer ({' '.join(str(error).split())[:300]}); try again"
        raise ServiceError(msg) from None
