"""The connection to Redshift: log-in, sessions, and a pool of them.

A session belongs to one thread at a time. Statements run by themselves unless `Session.transaction` holds them
together. A session that was lost, that was left within a transaction, or that is old does not come back to the pool.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

from singer_arrow.errors import ConfigError, ServiceError, SingerArrowError
from singer_arrow.runtime import process
from singer_arrow.runtime.threads import Waiting, pauses
from singer_arrow.sdk.cli import lazy_modules
from singer_arrow.storage import aws
from target_redshift import resources, sql
from target_redshift.resources import QueryResult, SessionLostError
from target_redshift.settings import Iam, Settings

T = TypeVar("T")
logger = logging.getLogger("target-redshift")
DEADLINE_SECONDS = 300.0
"""How long something is tried again while Redshift is busy or out of reach."""
FIRST_SECONDS = 10.0
"""How long the first connection of a run may take: a wrong host is reported early."""
LOGIN_SECONDS = 60
"""How long the server may be silent during the log-in; what listens there may be no Redshift."""
IDLE_SECONDS = 240.0
"""How long a session waits in the pool; firewalls and Redshift itself end idle ones without a word."""
_PLUGINS = {
    "redshift_connector.plugin.browser_idc_auth_plugin": ("BrowserIdcAuthPlugin",),
    "redshift_connector.plugin.idp_token_auth_plugin": ("IdpTokenAuthPlugin",),
}
"""Modules of the driver that only log-ins use which no setting offers, and their classes."""
MOST_STATEMENTS = 1_000
"""How many statements a session runs before the pool lets it go: the driver never forgets a text."""


class Session:
    """A session; `broken`: it can no longer be used; `statements`: the number of statements it has run."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.broken = False
        self.in_transaction = False
        self.statements = 0
        self.idle_since = time.monotonic()
        self._in_use = threading.Lock()

    def execute(self, text: str, params: Sequence[Any] = (), *, what: str) -> QueryResult:
        """Run a statement; `what` is for an error's message. After SessionLostError it may have been done."""
        self.statements += 1
        with self._in_use:
            try:
                cursor = self._driver.cursor()
                cursor.execute(text, list(params) or None)
                rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
                return QueryResult(rows, cursor.rowcount)
            except Exception as error:  # noqa: BLE001 - all of the driver's errors pass this boundary
                ours = resources.translate_error(error, what, text)
                self.broken = self.broken or isinstance(ours, SessionLostError)
                raise ours from None
            except BaseException:  # the response is unread, and the next statement would read it
                self.broken = True
                raise

    @cached_property
    def id(self) -> int:
        """Its number on the server, by which system tables know it."""
        return int(self.execute(sql.SESSION_ID, what="Asking for the session's number").value)

    @contextmanager
    def transaction(self, what: str) -> Iterator[None]:
        """Do what is within in one transaction: all of it, or nothing.

        If the session is lost at its end, it may have been committed nevertheless.
        """
        self.execute(sql.BEGIN, what=what)
        self.in_transaction = True
        try:
            yield
            self.execute(sql.COMMIT, what=what)
        except BaseException:
            if not self.broken:
                try:
                    self.execute(sql.ROLLBACK, what=what)
                    self.in_transaction = False
                except SingerArrowError:
                    self.broken = True  # the error that led here is reported
            raise
        self.in_transaction = False

    def close(self) -> None:
        """End the session; a statement that another thread is waiting for is lost."""
        self.broken = True
        is_free = self._in_use.acquire(blocking=False)
        try:
            if is_free:
                file = self._driver._sock
                try:
                    self._driver.close()
                finally:
                    if file is not None:
                        file.close()  # which the driver leaves open
            else:  # which would wait for the answer; the thread that gets none closes it
                self._driver._usock.shutdown(socket.SHUT_RDWR)
        except Exception:  # noqa: BLE001 - it is of no use any more, whatever is wrong with it
            return
        finally:
            if is_free:
                self._in_use.release()


class Connection:
    """A pool of sessions; safe to use from any thread, and opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._idle: list[Session] = []
        self._sessions: set[Session] = set()
        self._is_ending = False
        self._lock = threading.Lock()
        self._was_reached = False
        self._unreached_since: float | None = None

    @property
    def is_lost(self) -> bool:
        """Whether no session could be opened for so long that nothing is tried again, whatever its own deadline is."""
        since = self._unreached_since
        return since is not None and time.monotonic() - since > DEADLINE_SECONDS

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Yield a session for the calling thread; it returns to the pool unless it is broken."""
        session = self._take()
        if session is None:
            session = self.retried(self.connect)
            with self._lock:
                self._sessions.add(session)
        try:
            yield session
        finally:
            if session.broken or session.in_transaction or session.statements >= MOST_STATEMENTS:
                self._end(session)
            else:
                session.idle_since = time.monotonic()
                with self._lock:
                    self._idle.append(session)

    def query(self, text: str, params: Sequence[Any] = (), *, what: str) -> QueryResult:
        """Run one statement that may be run twice, in a session of its own; again, if Redshift could not just now."""

        def run() -> QueryResult:
            with self.session() as session:
                return session.execute(text, params, what=what)

        return self.retried(run)

    def retried(self, function: Callable[[], T]) -> T:
        """Call a function that may be called twice; again, while it raises `ServiceError`."""
        waiting = Waiting(logger)
        for pause in pauses(DEADLINE_SECONDS):
            try:
                return function()
            except ServiceError as error:
                if pause is None or not self._was_reached or self._is_ending or self.is_lost:
                    raise
                waiting.before_again(pause, error)
        raise AssertionError

    def close(self) -> None:
        """End all sessions, those in use too; later statements are not retried."""
        self._is_ending = True
        with self._lock:
            sessions, self._idle = set(self._sessions), []
        for session in sessions:
            self._end(session)

    def access(self) -> sql.Access:
        """Return by what right COPY reads files: the role that is set, or fresh credentials of `aws`."""
        if self.settings.copy_role_arn:
            return sql.Access(role=self.settings.copy_role_arn)
        keys = self._credentials()
        return sql.Access(
            access_key_id=keys["access_key_id"],
            secret_access_key=keys["secret_access_key"],
            session_token=keys.get("token"),
        )

    @cached_property
    def _credentials(self) -> Callable[[], dict[str, Any]]:
        return aws.credentials(self.settings.aws)

    @cached_property
    def _iam_credentials(self) -> Callable[[], dict[str, Any]]:
        options = self.settings.iam.aws if self.settings.iam else self.settings.aws
        return aws.credentials(options)

    def _take(self) -> Session | None:
        """Take the session that was returned last, and end those that were idle too long."""
        oldest = time.monotonic() - IDLE_SECONDS
        with self._lock:
            stale = [s for s in self._idle if s.idle_since < oldest]
            self._idle = [s for s in self._idle if s.idle_since >= oldest]
            session = self._idle.pop() if self._idle else None
        for old in stale:
            self._end(old)
        return session

    def _end(self, session: Session) -> None:
        with self._lock:
            self._sessions.discard(session)
        session.close()

    def connect(self) -> Session:
        redshift_connector = _driver()
        logging.getLogger("redshift_connector").setLevel(logging.WARNING)  # it logs every message of the protocol
        what = f"Connecting to {address(self.settings)}"
        if not self._was_reached and self.settings.host:
            _check_reachable(self.settings.host, self.settings.port, what)
        arguments = login(self.settings, self._iam_credentials() if self.settings.iam else {})
        try:
            driver: Any = redshift_connector.connect(**arguments)
        except Exception as error:  # noqa: BLE001 - all of the driver's errors pass this boundary
            self._unreached_since = self._unreached_since or time.monotonic()
            raise resources.translate_error(error, what) from None
        self._was_reached, self._unreached_since = True, None
        # the driver sets keepalive alone, which does not count while data is sent
        for option in process.user_timeout():
            driver._usock.setsockopt(*option)
        driver._usock.settimeout(None)  # a COPY may take hours, and the driver has no option for it
        driver.autocommit = True
        session = Session(driver)
        try:
            session.execute(sql.SET_UTC, what=what)
            if group := self.settings.query_group:
                session.execute(sql.set_query_group(group), what=what)
        except SingerArrowError:
            session.close()
            raise
        return session


def address(settings: Settings) -> str:
    """Return the address of the database for messages, on one line."""
    iam = settings.iam or Iam()
    host = f"{settings.host}:{settings.port}" if settings.host else iam.cluster_identifier or iam.workgroup
    return " ".join(f"{host}/{settings.dbname}".split())


def login(settings: Settings, credentials: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the driver's `connect`; with iam, AWS exchanges `credentials` for the database's."""
    common: dict[str, Any] = {
        "database": settings.dbname,
        "ssl": settings.ssl,
        "timeout": LOGIN_SECONDS,
        "tcp_keepalive": True,
        "tcp_keepalive_idle": 60,
        "tcp_keepalive_interval": 15,
        "tcp_keepalive_count": 8,
        "max_prepared_statements": 0,  # each text is sent once; and what is prepared goes stale as tables change
        "application_name": "target-redshift",
    }
    if settings.host:
        common |= {"host": settings.host, "port": settings.port}
    if settings.sslmode:
        common["sslmode"] = settings.sslmode
    iam = settings.iam
    if iam is None:
        return common | {"user": settings.user, "password": settings.password}
    common |= {
        "iam": True,
        "region": iam.region,
        "access_key_id": credentials["access_key_id"],
        "secret_access_key": credentials["secret_access_key"],
        "session_token": credentials.get("token"),
    }
    if iam.workgroup:
        return common | {"is_serverless": True, "serverless_work_group": iam.workgroup}
    return common | {"cluster_identifier": iam.cluster_identifier, "db_user": iam.db_user or settings.user}


def _driver() -> Any:
    """Return the driver, imported without its two plugins that import boto3 for log-ins by a browser or a token."""
    with lazy_modules(_PLUGINS):
        return import_module("redshift_connector")


def _check_reachable(host: str, port: int, what: str) -> None:
    """Fail fast if host and port are unreachable; the driver would wait for minutes."""
    try:
        socket.create_connection((host, port), timeout=FIRST_SECONDS).close()
    except socket.gaierror:
        raise ConfigError(f"{what}: there is no host {host!r}; check the setting host") from None
    except ConnectionRefusedError:
        msg = f"{what}: the connection was refused; check the settings host and port, and whether the cluster is paused"
        raise ConfigError(msg) from None
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else str(error)
        msg = f"{what}: {reason}; check host and port, and that its security group lets this machine in"
        raise ServiceError(msg) from None
