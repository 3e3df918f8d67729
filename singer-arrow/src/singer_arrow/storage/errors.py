"""Errors of obstore and botocore -> ours, and which are tried again; the only place that does."""

from __future__ import annotations

import logging
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from xml.etree.ElementTree import ParseError

from singer_arrow.errors import (
    AccessDeniedError,
    ArchivedError,
    ConflictError,
    CredentialsError,
    DataError,
    EmptyObjectError,
    ExpiredCredentialsError,
    NotFoundError,
    ObjectChangedError,
    ServiceError,
    SingerArrowError,
    is_of_disk,
)
from singer_arrow.storage.urls import Url

# Translation of obstore's and botocore's errors to ours; the only place that does it.

_PERMISSIONS = {
    "s3": "s3:ListBucket on the bucket, s3:GetObject on its objects and, for batch files, s3:PutObject",
    "gs": "storage.objects.list, .get and, for batch files, .create",
}
"""What is needed to read and write objects, by scheme."""
_EXPIRED = re.compile(r"ExpiredToken|InvalidToken|TokenRefreshRequired|RequestExpired")
_NO_RANGE = re.compile(r"InvalidRange|416 Range Not Satisfiable|range was invalid|starting at \d+ but|beyond the end")
_NO_PATH = re.compile(r'invalid path: (?:Error parsing )?Path "(.*?)"', re.DOTALL)
_DENIED = re.compile(r"AccessDenied|Forbidden|\(403\)|status code: 403")
_REFUSED_KEY = re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch")
_ENCRYPTED = re.compile(r"stored using a form of Server Side Encryption|InvalidEncryptionAlgorithm|MD5 hash of the key")
_NOT_ENCRYPTED = re.compile(r"encryption parameters are not applicable")
_ELSEWHERE = re.compile(
    r"PermanentRedirect|IncorrectEndpoint|AuthorizationHeaderMalformed|incorrectly configured region"
)
_NO_BODY = re.compile(r"HEAD \S+ .*400 Bad Request|\(400\) when calling the HeadObject", re.DOTALL)
_OS_ERROR = re.compile(r"\(os error (\d+)\)|Os { code: (\d+)")
_STATUS = re.compile(r"status code: \d{3}[\w ]*")
_CODE = re.compile(r"<Code>(.*?)</Code>")
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_NO_TOKEN = re.compile(r"credential provider: CredentialsError: (.*)", re.DOTALL)
_EXISTS_ON_AZURE = "BlobAlreadyExists"
_SHORTEST = 5  # minimum number of characters of a key that is removed from error texts


@contextmanager
def translate_errors(url: Url, *, pinned: bool = False) -> Iterator[None]:
    """Translate errors of obstore and botocore to ours.

    With `pinned` the object existed before, so a missing one is an ObjectChangedError.
    """
    from obstore import exceptions as oe

    try:
        yield
    except SingerArrowError:
        raise
    except FileNotFoundError as error:
        text = _status_text(url, str(error))
        if "NoSuchBucket" in text or "BucketNotFound" in text:
            raise _no_bucket(url) from None
        raise _missing(url, pinned=pinned) from None
    except oe.PreconditionError:
        raise object_changed(url) from None
    except PermissionError as error:  # of local disks, and obstore's error of the same base
        raise _other(url, str(error), pinned=pinned, denied=True) from None
    except (oe.BaseError, OSError, ParseError) as error:
        if is_of_disk(full := _of_this_machine(url, error)):
            raise full from None
        raise _other(url, str(error), pinned=pinned) from None
    except Exception as error:
        ours = _of_botocore(url, error, pinned=pinned) if "botocore.exceptions" in sys.modules else None
        if (
            ours is None and isinstance(error, ValueError) and "parse path" in str(error)
        ):  # obstore's, before any request
            ours = _no_path(str(url))
        if ours is None:
            raise
        raise ours from None


def _of_this_machine(url: Url, error: Exception) -> Exception:
    """Return an error of the local disk, which obstore has as text alone, as one of the system that names the file."""
    if url.scheme != "file":
        return error
    found = _OS_ERROR.search(str(error))
    number = int(found[1] or found[2]) if found else getattr(error, "errno", None)
    return OSError(number, os.strerror(number), str(url.local_path())) if number else error


@contextmanager
def translate_credential_errors() -> Iterator[None]:
    """Translate botocore's errors in looking up credentials to CredentialsError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise CredentialsError(f"AWS credentials could not be had: {' '.join(str(error).split())}") from None


def no_credentials() -> CredentialsError:
    """Return the error for missing AWS credentials."""
    return CredentialsError(
        "No AWS credentials were found in the settings, the environment, ~/.aws or the machine's role; "
        "set aws.profile or aws.access_key_id, or aws.anonymous for a public bucket"
    )


def is_not_encrypted(error: Exception) -> bool:
    """Return whether S3 refused the customer's key because the object was written without one.

    The answer to a HEAD has no body, so any refused HEAD counts.
    """
    text = str(error)
    return _NOT_ENCRYPTED.search(text) is not None or _NO_BODY.search(text) is not None


def conflict_error(url: Url, error: Exception, *, may_exist: bool) -> ConflictError | None:
    """Return the error for a concurrent write; None if the object exists, and the write was to fail then (`may_exist`).

    obstore reports every 409 as an existing object. S3 and Google answer 409 while another write is under way (and 412
    for an existing object); Azure answers 409 in both cases.
    """
    text = _status_text(url, str(error))
    if may_exist and (not text.startswith("status code: 409") or _EXISTS_ON_AZURE in text):
        return None
    return ConflictError(f"{url} cannot be written while something else writes it ({summary(error)}); try again")


def object_changed(url: Url) -> ObjectChangedError:
    """Return the error for an object that is not the requested version."""
    return ObjectChangedError(f"{url} was replaced or deleted while it was being read")


def summary(error: Exception | str) -> str:
    """Return a library's message in one line of at most 300 characters: code and text of S3 if present."""
    text = str(error)
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code:
        text = f"{code[1]}: {message[1]}" if message else code[1]
    return " ".join(text.partition("Debug source")[0].split())[:300].rstrip(" -")


def _of_botocore(url: Url, error: Exception, *, pinned: bool) -> Exception | None:
    from botocore import exceptions as be

    if isinstance(error, be.ClientError):
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if code in ("NoSuchKey", "404", "NotFound"):
            return _missing(url, pinned=pinned)
        if code in ("PreconditionFailed", "412"):
            return object_changed(url)
        return _other(url, f"{code}: {message}" if message else str(error), pinned=pinned)
    if isinstance(error, be.NoCredentialsError | be.CredentialRetrievalError | be.SSOError | be.TokenRetrievalError):
        return CredentialsError(f"AWS credentials could not be had: {summary(error)}")
    return _other(url, str(error), pinned=pinned) if isinstance(error, be.BotoCoreError) else None


def _status_text(url: Url, text: str) -> str:
    """Return status, code and message of an answer; without an answer, the error text without the object's key.

    Keys are removed because they may look like a code.
    """
    text, key = text.partition("Debug source")[0], url.key
    for named in (f"at location {key} ", f"for path {key}: "):  # elsewhere obstore percent-encodes the key
        text = text.partition(named)[2] or text
    if status := _STATUS.search(text):
        code, message = _CODE.search(text, status.end()), _MESSAGE.search(text, status.end())
        if code:
            return f"{status[0]}: {code[1]}: {message[1] if message else ''}"
        text = text[status.start() :]
    return text.replace(key, "") if len(key) >= _SHORTEST else text


def _other(url: Url, answer: str, *, pinned: bool, denied: bool = False) -> Exception:
    text = _status_text(url, answer)
    if pinned and "412 Precondition Failed" in text:  # reported when obstore resumes a broken body
        return object_changed(url)
    if found := _NO_TOKEN.search(answer):  # raised by the credential provider, before any request
        return CredentialsError(f"{url}: {summary(found[1])}")
    if _NO_RANGE.search(text):
        return EmptyObjectError(f"{url} holds no byte where some were asked for; it is empty or was cut")
    if "NoSuchBucket" in text:
        return _no_bucket(url)
    if found := _NO_PATH.search(answer):
        return _no_path(found[1])
    if "InvalidObjectState" in text:
        how = "restore it from its storage class, or set the stream's 'archived' to skip"
        return ArchivedError(f"{url} is archived ({summary(answer)}); {how}")
    if _EXPIRED.search(text):
        return ExpiredCredentialsError(
            f"{url}: the credentials have expired ({summary(answer)}); renew them and run again"
        )
    if _ENCRYPTED.search(text):
        why = f"{url} is encrypted with a key of yours ({summary(answer)}); set aws.sse_customer_key to that key"
        return CredentialsError(why)
    if _NO_BODY.search(answer):
        why = "the credentials may have expired, or the object is encrypted with a key that aws.sse_customer_key lacks"
        return CredentialsError(f"{url}: S3 refuses a HEAD of it and gives no reason; {why}")
    if _ELSEWHERE.search(text):
        why = f"{url}: the bucket is in another region ({summary(answer)}); omit aws.region, or set it to the bucket's"
        return CredentialsError(why)
    if _REFUSED_KEY.search(text):
        why = "check the credentials: the access key or its secret is wrong, or of another service"
        return CredentialsError(f"{url}: the credentials are refused ({summary(answer)}); {why}")
    if denied or _DENIED.search(text):
        needed = _PERMISSIONS.get(url.scheme, "listing, reading and, for batch files, writing")
        return AccessDeniedError(
            f"{url}: access is denied ({summary(answer)}); check the credentials, and that they allow {needed}; see "
            "docs/access.md"
        )
    return ServiceError(f"{url}: the storage did not answer as it should ({summary(answer)}); try again")


def _missing(url: Url, *, pinned: bool) -> Exception:
    return object_changed(url) if pinned else NotFoundError(f"{url} does not exist")


def _no_bucket(url: Url) -> NotFoundError:
    return NotFoundError(f"{url.scheme}://{url.bucket} does not exist; check the bucket's name and region")


def _no_path(key: str) -> DataError:
    reason = "its key has an empty part, one that is '.' or '..', or a control character, which only S3 is read with"
    return DataError(reason, url=key, hint="Rename the object, or keep it out of the folder that is listed")


# Retries of requests to object stores, and an adaptive limit of concurrent requests.

logger = logging.getLogger(__name__)
MAX_REQUESTS = 128
"""Maximum number of concurrent requests of a process."""
MAX_TRIES = 10
"""Maximum number of tries if connections break; a request that is throttled may be tried more often."""
DEADLINE = 300.0
"""Seconds after the first try in which a request is retried."""
FIRST_PAUSE, MAX_PAUSE = 0.1, 10.0
_POLL_SECONDS = 0.2  # interval at which a waiting request checks whether its answer is still needed
_STATUS_NUMBER = re.compile(r"status code: (\d{3})")
_CODE_WORD = re.compile(r"<Code>(\w+)</Code>")
_THROTTLED = {"429", "503", "SlowDown", "TooManyRequests"}
_TRANSIENT = {"408", "425", "429", "500", "502", "503", "504", "509"}
_NOT_NEEDED = "the request was cancelled, because its answer is not needed any more"
T = TypeVar("T")


def always() -> bool:
    """Return True: the default of `is_needed`."""
    return True


class AdaptiveLimiter:
    """Limits concurrent requests; all threads of a process share one.

    The limit starts at its maximum. A throttled request halves the number of requests under way, once for all requests
    that started before it; each other answer raises the limit by 1 / limit. Rounded down, it is the number of requests
    that may be under way.
    """

    def __init__(self, maximum: int = MAX_REQUESTS) -> None:
        self.limit = float(maximum)
        self._maximum, self._busy, self._generation = maximum, 0, 0
        self._changed = threading.Condition()

    @contextmanager
    def permit(self, is_needed: Callable[[], bool] = always) -> Iterator[int]:
        """Hold a slot within the block, which gets its generation; ServiceError if `is_needed` returns False before."""
        with self._changed:
            while self._busy >= max(1, int(self.limit)):
                if not is_needed():
                    raise ServiceError(_NOT_NEEDED)
                self._changed.wait(_POLL_SECONDS)
            self._busy += 1
            generation = self._generation
        try:
            yield generation
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def succeeded(self) -> None:
        """Raise the limit after a successful request."""
        if self.limit < self._maximum:
            with self._changed:
                self.limit = min(float(self._maximum), self.limit + 1 / self.limit)
                self._changed.notify()

    def throttled(self, generation: int) -> None:
        """Halve the limit, unless it was halved after the request of `generation` started."""
        with self._changed:
            if generation == self._generation:
                self.limit, self._generation = max(1.0, min(self.limit, self._busy) / 2), generation + 1


LIMITER = AdaptiveLimiter()
"""Limiter of requests for objects and ranges; listings, HEAD and keys that only botocore reads are not limited."""


def with_retries(
    request: Callable[[], T],
    name: object,
    *,
    limiter: AdaptiveLimiter = LIMITER,
    is_needed: Callable[[], bool] = always,
    classify: Callable[[Exception], tuple[bool, bool]] | None = None,
) -> T:
    """Return the result of an idempotent request, which reads the whole body, retried after transient errors.

    Pauses are random, below a bound that doubles from 0.1 s to 10 s. No try starts later than `DEADLINE` after the
    first, apart from waiting for a permit; a single try may take 600 s (see `store`). `is_needed` is checked
    every 0.2 s while waiting; if it returns False, no further try starts. `classify` returns whether an error is
    transient, and whether the service throttled the request; by default by HTTP status, and broken connections are
    transient. The error of the last try is raised.
    """
    ends, broken, bound = 0.0, 0, FIRST_PAUSE
    while True:
        with limiter.permit(is_needed) as generation:
            ends = ends or time.monotonic() + DEADLINE
            try:
                answer = request()
            except Exception as error:
                is_transient, is_throttled = (classify or _classify)(error)
                if is_throttled:
                    limiter.throttled(generation)
                broken += not is_throttled
                if not is_transient or broken >= MAX_TRIES or time.monotonic() >= ends or not is_needed():
                    raise
                logger.debug("%s is requested again: %s", name, str(error).partition("\n")[0][:200])
            else:
                limiter.succeeded()
                return answer
        _pause(random.uniform(0, bound), is_needed)  # noqa: S311 - jitter, so that not all retry at once
        bound = min(2 * bound, MAX_PAUSE)


def _pause(seconds: float, is_needed: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if not is_needed():
            raise ServiceError(_NOT_NEEDED)
        time.sleep(min(left, _POLL_SECONDS))


def _classify(error: Exception) -> tuple[bool, bool]:
    """Return whether an error is transient, and whether it is throttling.

    The text of an error also contains the key, which may look like a code; where it contains a status, obstore has
    percent-encoded the key.
    """
    from obstore import exceptions as oe

    if isinstance(error, SingerArrowError):
        return isinstance(error, ServiceError), False
    if isinstance(error, FileNotFoundError | PermissionError | oe.BaseError) and not isinstance(error, oe.GenericError):
        return False, False
    text = str(error)
    if not (status := _STATUS_NUMBER.search(text)):
        return "HTTP error:" in text, False
    code = found[1] if (found := _CODE_WORD.search(text)) else ""
    if status[1] == "400":  # the request body arrived too slowly
        return code == "RequestTimeout", False
    is_transient = status[1] in _TRANSIENT
    return is_transient, is_transient and not _THROTTLED.isdisjoint((status[1], code))
