"""A session of PostgreSQL behind a session of Redshift: sends requests and passes answers on."""

import contextlib
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from local_cloud.redshift import translate, wire
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.names import LongNames
from local_cloud.redshift.sql.tokens import literal
from local_cloud.redshift.wire import Closed, Stream

_IDLE, _FAILED = b"I", b"E"
_ROW = ord("D")
_PIECE = 1 << 16
_MOST_AHEAD = 1 << 26
_ANSWERS = {b"1": b"P", b"2": b"B", b"3": b"C", b"n": b"D", b"T": b"D", b"C": b"E", b"I": b"E", b"s": b"E"}


class Backend:
    """A session of PostgreSQL behind one of Redshift. `terminate` asks a process of PostgreSQL to end."""

    def __init__(
        self,
        stream: Stream,
        client: Stream,
        names: LongNames,
        terminate: Callable[[int], object],
        *,
        unicode: bool,  # whether the client asked for no encoding
    ) -> None:
        self.status = _IDLE  # as of the last answer: I (no transaction), T (in one) or E (in a failed one)
        self.pid = 0
        self._stream = stream
        self._client = client
        self._names = names
        self._terminate = terminate
        self._unicode = unicode
        self._asked: deque[tuple[bytes, str]] = deque()
        self._shapes: dict[str, frozenset[int]] = {}
        self._varbytes: frozenset[int] = frozenset()
        self._poll = select.poll()
        self._poll.register(client, select.POLLIN)
        self._poll.register(stream, select.POLLIN)

    # -- towards PostgreSQL

    def send(self, data: bytes) -> None:
        """Send data to PostgreSQL, and receive meanwhile, so that the two sides do not block each other."""
        view, backend = memoryview(data), self._stream.socket
        both = select.poll()
        both.register(backend, select.POLLIN | select.POLLOUT)
        while view:
            for _, event in both.poll():
                if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    self._stream.fill()
                elif event & select.POLLOUT:
                    with contextlib.suppress(BlockingIOError):
                        view = view[backend.send(view[:_PIECE], socket.MSG_DONTWAIT) :]

    def ask(self, kind: bytes, body: bytes, name: str = "") -> bytes:
        """Return a message of the extended protocol to be sent, and expect its answer from now on."""
        self._asked.append((kind, name))
        return wire.message(kind, body)

    def bind(self, body: bytes, portal: str, statement: str) -> bytes:
        """Return a Bind message to be sent, like `ask`, and record which result columns will be VARBYTE in text."""
        shape = self._shapes.get("S" + statement, frozenset())
        self._shapes["P" + portal] = translate.text_varbytes(shape, translate.result_formats(body)) if shape else shape
        return self.ask(b"B", body, portal)

    # -- towards the client

    def relay(self, *, ready: bool, until_answered: bool = False, only: bytes | None = None) -> bool:
        """Pass PostgreSQL's answers on until it is ready for the next query; return whether nothing failed.

        `ready`: pass ReadyForQuery on too; `until_answered`: stop when all requests are answered; `only`: only messages
        of these types.
        """
        well = True
        while not (until_answered and not self._asked):
            if run := self._stream.take_run(_ROW):
                if only is None:
                    self._client.send(self._rows(run))
                continue
            found = self._stream.take()
            if found is None:
                self._wait()
                continue
            kind, body = found
            if kind == b"E":
                well = False
                self._asked.clear()
            answer = self._answer(kind, body)
            if (only is None or kind in only) and (kind != b"Z" or ready):
                self._client.send(answer)
            if kind == b"Z" or (not well and until_answered):
                break
        return well

    def _rows(self, run: bytes) -> bytes:
        varbytes = self._varbytes
        if self._asked and self._asked[0][0] == b"E":
            varbytes = self._shapes.get("P" + self._asked[0][1], frozenset())
        return translate.data_rows(run, varbytes) if varbytes else run

    def _answer(self, kind: bytes, body: bytes) -> bytes:
        """Return a message of PostgreSQL in the form for the client."""
        asked = self._asked[0] if self._asked else (b"", "")
        if _ANSWERS.get(kind) == asked[0]:
            self._asked.popleft()
        if kind == b"T":
            body, self._varbytes = translate.row_description(body, self._names.full)
            if asked[0] == b"D":
                self._shapes[asked[1]] = self._varbytes
        elif kind == b"t":
            body = translate.parameter_description(body)
        elif kind == b"S":
            body = translate.parameter(body, unicode=self._unicode)
        elif kind == b"K":
            self.pid = wire.int32(body, 0)
        elif kind in (b"E", b"N"):
            return wire.response(kind, translate.fields(wire.fields(body), self._names.in_text))
        elif kind == b"Z":
            self.status = body
        return wire.message(kind, body)

    def _wait(self) -> None:
        """Wait for data from PostgreSQL, while the client may send data; raise `Closed` if either side is gone."""
        while True:
            self._poll.modify(self._client, select.POLLIN if self._client.held < _MOST_AHEAD else 0)
            for number, _ in self._poll.poll():
                if number == self._stream.fileno():
                    self._stream.fill()
                    return
                self._client.fill()

    # -- for the proxy itself, while PostgreSQL is idle

    def query(self, sql: str) -> list[list[str | None]]:
        """Return the rows of a query of the proxy's own."""
        self.send(wire.query(sql))
        rows = [wire.row_of(body) for kind, body in self._messages() if kind == b"D"]
        return [[None if value is None else value.decode() for value in row] for row in rows]

    def run(self, sql: str) -> bool:
        """Execute a statement, pass on only its errors, and return whether it succeeded."""
        self.send(wire.query(sql))
        return self.relay(ready=False, only=b"EN")

    def result(self, sql: str) -> tuple[bytes, bytes]:
        """Return the description of a query's rows, and all data of a COPY TO STDOUT."""
        self.send(wire.query(sql))
        described, data = b"", list[bytes]()
        for kind, body in self._messages():
            if kind == b"T":
                described = body
            elif kind == b"d":
                data.append(body)
        return described, b"".join(data)

    def _next(self) -> wire.Message:
        while (found := self._stream.take()) is None:
            self._wait()
        return found

    def _messages(self) -> Iterator[wire.Message]:
        """Yield PostgreSQL's messages until it is ready; raise its error then, if there was one."""
        failed = None
        while (found := self._next())[0] != b"Z":
            if found[0] == b"E":
                failed = self._error(found[1])
            yield found
        self.status = found[1]
        if failed:
            raise failed

    def copy_in(self, sql: str, chunks: Iterable[bytes]) -> None:
        """Send rows to `COPY ... FROM STDIN`. An error of `chunks` fails the COPY and is raised."""
        self.send(wire.query(sql))
        while (found := self._next())[0] not in (b"G", b"E"):
            pass
        if found[0] == b"E":
            self._drain()
            raise self._error(found[1])
        try:
            for chunk in chunks:
                self.send(wire.message(b"d", chunk))
        except BaseException:
            self.send(wire.message(b"f", wire.text("the load failed")))
            self._drain()
            raise
        self.send(wire.message(b"c"))
        for _ in self._messages():
            pass

    def _error(self, body: bytes) -> RedshiftError:
        words = translate.fields(wire.fields(body), self._names.in_text)
        return RedshiftError(words["M"], words["C"], words.get("D", ""))

    def _drain(self) -> None:
        with contextlib.suppress(RedshiftError):
            for _ in self._messages():
                pass

    def fail(self, error: RedshiftError) -> None:
        """Make PostgreSQL itself raise an error, so that the transaction fails, and pass the error on."""
        detail = f", DETAIL = {literal(error.detail.replace(chr(0), ''))}" if error.detail else ""
        code = error.code if len(error.code) == 5 else "XX000"
        words = error.message.replace("\0", "")
        if self.status == _FAILED:
            # The transaction has failed already, by rows that ended in the middle; PostgreSQL would only report that.
            self._client.send(wire.error(code, words, detail=error.detail))
            return
        raised = f"RAISE EXCEPTION USING MESSAGE = {literal(words)}, ERRCODE = '{code}'{detail}"
        self.send(wire.query(f"DO {literal(f'BEGIN {raised}; END')}"))
        self.relay(ready=False)

    def terminate(self) -> None:
        """Ask the process of PostgreSQL to end, even while it is busy."""
        self._terminate(self.pid)

    def close(self, *, at_once: bool) -> None:
        """End the session; with `at_once` also in the middle of a statement."""
        if at_once:
            self.terminate()
        self._stream.socket.close()

    def kill(self) -> None:
        """End the process of PostgreSQL and wait for its end."""
        self.terminate()
        with contextlib.suppress(Closed):
            while True:
                self._stream.fill()
