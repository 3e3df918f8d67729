"""A client's session: executes its messages, unit by unit, in a session of PostgreSQL."""

import functools
import threading
from collections.abc import Callable

from local_cloud.redshift import special, wire
from local_cloud.redshift.backend import Backend
from local_cloud.redshift.cluster import Cluster
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.faults import Rule
from local_cloud.redshift.sql.rewrite import rewrite
from local_cloud.redshift.sql.statement import Copy, Plain, Settings, Statement
from local_cloud.redshift.wire import Closed, Stream

_FAILED = b"E"


class Killed(Exception):  # noqa: N818 - an event, not a fault
    """A fault ended this session."""


class Session:
    """The statements of an authenticated client.

    A unit is what a client sends before it waits: one simple query, or messages of the extended protocol up to Sync.
    Statements that only Redshift has are executed as simple queries, so they take no parameters and return no rows to
    Describe, as in Redshift.
    """

    def __init__(self, client: Stream, backend: Backend, cluster: Cluster) -> None:
        self.client = client
        self.backend = backend
        self.cluster = cluster
        self.settings = Settings(cluster.names)
        self._prepared: dict[str, Statement] = {}
        self._portals: dict[str, Statement] = {}
        self._pending: list[bytes] = []
        self._skipping = False

    def serve(self) -> None:
        """Serve the client until it disconnects; `Closed`: without the message Terminate, `Killed`: by a fault."""
        while True:
            kind, body = self.client.read()
            if kind == b"Q":
                self._simple(wire.split_text(body)[0])
            elif kind == b"S":
                self._sync()
            elif kind == b"H":
                self._forward(wire.message(b"H"), synced=False)
            elif kind == b"X":
                return
            elif kind in (b"P", b"B", b"D", b"E", b"C") and not self._skipping:
                try:
                    self._extended(kind, body)
                except RedshiftError as error:
                    self._fail(error)

    # -- simple protocol

    def _simple(self, text: str) -> None:
        try:
            found = rewrite(text, self.settings)
        except RedshiftError as error:
            self.backend.fail(error)
            self._send_ready()
            return
        for statement in found:
            self.cluster.statements.add(statement.text)
        rules = [self.cluster.faults.of(statement.text) for statement in found]
        if not any(rules) and all(isinstance(statement, Plain) for statement in found):
            joined = ";".join(statement.sql for statement in found if isinstance(statement, Plain))
            self.backend.send(wire.query(joined))
            self.backend.relay(ready=True)
            return
        for statement, rule in zip(found, rules, strict=True):
            if not self._do(statement, rule, self._query):
                break
        self._send_ready()

    def _query(self, statement: Plain, *, silent: bool) -> bool:
        self.backend.send(wire.query(statement.sql))
        return self.backend.relay(ready=False, only=b"E" if silent else None)

    def _send_ready(self) -> None:
        self.client.send(wire.message(b"Z", self.backend.status))

    # -- extended protocol

    def _extended(self, kind: bytes, body: bytes) -> None:
        if kind == b"P":
            self._parse(body)
        elif kind == b"B":
            self._bind(body)
        elif kind == b"E":
            self._execute(body)
        else:
            self._describe_or_close(kind, body)

    def _parse(self, body: bytes) -> None:
        name, after = wire.split_text(body)
        text, after = wire.split_text(body, after)
        found = rewrite(text, self.settings)
        if len(found) > 1:
            raise RedshiftError("cannot insert multiple commands into a prepared statement", "42601")
        statement = found[0] if found else Plain("", "")
        self._prepared[name] = statement
        if isinstance(statement, Plain):
            renamed = wire.text(name) + wire.text(statement.sql) + body[after:]
            self._pending.append(self.backend.ask(b"P", renamed, name))
        else:
            self._answer(b"1")

    def _bind(self, body: bytes) -> None:
        portal, after = wire.split_text(body)
        name, after = wire.split_text(body, after)
        statement = self._prepared.get(name, Plain("", ""))
        self._portals[portal] = statement
        if isinstance(statement, Plain):
            self._pending.append(self.backend.bind(body, portal, name))
            return
        if wire.int16(body, after + 2 + 2 * wire.int16(body, after)):
            raise RedshiftError(f"{statement.text.split()[0].upper()} takes no bind parameters", "42P02")
        self._answer(b"2")

    def _execute(self, body: bytes) -> None:
        portal, _ = wire.split_text(body)
        statement = self._portals.get(portal, Plain("", ""))
        self.cluster.statements.add(statement.text)
        rule = self.cluster.faults.of(statement.text)
        asked = self.backend.ask
        if isinstance(statement, Plain) and rule is None:
            self._pending.append(asked(b"E", body, portal))
            return
        if not self._forward(wire.message(b"S"), synced=True):
            return

        def execute(_: Plain, *, silent: bool) -> bool:
            self.backend.send(asked(b"E", body, portal) + wire.message(b"S"))
            return self.backend.relay(ready=False, only=b"E" if silent else None)

        self._skipping = not self._do(statement, rule, execute, described=True)

    def _describe_or_close(self, kind: bytes, body: bytes) -> None:
        name, _ = wire.split_text(body, 1)
        known = self._prepared if body[:1] == b"S" else self._portals
        statement = known.get(name, Plain("", ""))
        if isinstance(statement, Plain):
            self._pending.append(self.backend.ask(kind, body, body[:1].decode() + name))
        elif kind == b"C":
            self._answer(b"3")
        else:
            described = special.description(statement)
            self._answer(b"t", wire.pack16(0)) if body[:1] == b"S" else None
            self._answer(*described)
        if kind == b"C":
            known.pop(name, None)

    def _answer(self, kind: bytes, body: bytes = b"") -> None:
        """Answer in PostgreSQL's place, after the answers to earlier requests."""
        if self._forward(wire.message(b"S"), synced=True):
            self.client.send(wire.message(kind, body))

    def _forward(self, last: bytes, *, synced: bool) -> bool:
        """Send the pending messages to PostgreSQL and pass its answers on; return whether nothing failed."""
        if not self._pending:
            return True
        pending, self._pending = self._pending, []
        self.backend.send(b"".join(pending) + last)
        well = self.backend.relay(ready=False, until_answered=not synced)
        self._skipping = not well
        return well

    def _sync(self) -> None:
        pending, self._pending = self._pending, []
        self.backend.send(b"".join(pending) + wire.message(b"S"))
        self.backend.relay(ready=True)
        self._skipping = False

    def _fail(self, error: RedshiftError) -> None:
        if self._forward(wire.message(b"S"), synced=True):
            self.backend.fail(error)
        self._skipping = True

    # -- one statement

    def _do(
        self, statement: Statement, rule: Rule | None, plainly: Callable[..., bool], *, described: bool = False
    ) -> bool:
        """Execute a statement, by `plainly` if it is PostgreSQL's, with its fault; return whether it succeeded."""
        rule = rule or Rule()
        try:
            if rule.at == "before":
                self._strike(rule)
            well = self._do_between(statement, rule, plainly, described)
            if well and rule.at == "after":
                self._strike(rule)
        except RedshiftError as error:
            self.backend.fail(error)
            return False
        return well

    def _do_between(self, statement: Statement, rule: Rule, plainly: Callable[..., bool], described: bool) -> bool:
        silent = rule.at == "after" and rule.action != "none"
        if isinstance(statement, Plain):
            if rule.at != "middle":
                return plainly(statement, silent=silent)
            if rule.action != "kill":
                self._strike(rule)
                return plainly(statement, silent=False)
            return self._kill_within(statement, rule, plainly)
        if self.backend.status == _FAILED:
            raise RedshiftError("current transaction is aborted, commands ignored until end of transaction", "25P02")
        if not isinstance(statement, Copy) and rule.at == "middle":
            self._strike(rule)
        strike = functools.partial(self._strike, rule) if rule.at == "middle" else None
        answer = special.execute(
            statement, self.backend, self.cluster, self.settings, strike=strike, described=described
        )
        if answer and not silent:
            self.client.send(b"".join(answer))
        return answer is not None

    def _kill_within(self, statement: Plain, rule: Rule, plainly: Callable[..., bool]) -> bool:
        """Kill the process during a statement, or right after it."""
        timer = threading.Timer(rule.delay_s, self.backend.terminate)
        timer.start()
        try:
            plainly(statement, silent=True)
        except Closed:
            raise Killed from None
        finally:
            timer.join()
        self.backend.kill()
        raise Killed

    def _strike(self, rule: Rule) -> None:
        """Apply a fault."""
        self.client.wait(rule.delay_s)
        if rule.action == "kill":
            self.backend.kill()
            raise Killed
        if rule.action == "error":
            raise rule.error()
