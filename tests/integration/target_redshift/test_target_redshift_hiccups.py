"""A service fails temporarily while a group is staged again: no row is lost, and the ledger is exact."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from redshift_lines import Loads
from singer_lines import record, rows, schema, state

from singer_arrow.errors import CredentialsError, ServiceError
from target_redshift import sql
from target_redshift.connection import Connection, Session
from target_redshift.resources import SessionLostError
from target_redshift.uploads import S3StagingFolder


@pytest.fixture
def failing_once(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the nth call of a method of `S3StagingFolder` fail with a 503; returns a list with the number of calls."""

    def fail(method: str, nth: int) -> list[int]:
        real, calls = getattr(S3StagingFolder, method), [0]

        def called(self: S3StagingFolder, *args: Any) -> Any:
            calls[0] += 1
            if calls[0] == nth:
                msg = "s3://stage: the storage is busy (503); run again"
                raise ServiceError(msg)
            return real(self, *args)

        monkeypatch.setattr(S3StagingFolder, method, called)
        return calls

    return fail


@pytest.mark.parametrize("method", ["upload", "put_manifest"])
def test_an_upload_of_what_copy_refused(
    method: str, redshift: Loads, failing_once: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = failing_once(method, 1 if method == "upload" else 2)
    nul = [{"id": 1, "name": "a\0b"}, {"id": 2, "name": "c"}]
    redshift.run([schema(), redshift.batch(nul, batch_id="A"), redshift.batch(rows(10, 3), batch_id="B"), state(7)])
    assert calls[0] >= 2
    assert redshift.ids() == [1, 2, 10, 11, 12]
    assert dict(redshift.ledger()) == {"A": 2, "B": 3}
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"n": 7}


def test_an_upload_of_what_has_a_key_twice(redshift: Loads, failing_once: Any) -> None:
    calls = failing_once("upload", 1)
    twice = [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}, {"id": 2, "name": "c"}]
    redshift.run([schema(), redshift.batch(twice, batch_id="A")], load_method="upsert")
    assert calls[0] == 2
    assert redshift.table() == [{"id": 1, "name": "b"}, {"id": 2, "name": "c"}]


def lose_a_commit(monkeypatch: pytest.MonkeyPatch, meanwhile: Any) -> None:
    """Drop the first COMMIT of a load and its answer, and run an action before the retry."""
    real, lost = Session.execute, []

    def execute(self: Session, text: str, params: Any = (), *, what: str) -> Any:
        if text == sql.COMMIT and "Loading" in what and not lost:
            lost.append(text)
            real(self, sql.ROLLBACK, what=what)
            self.broken = True
            meanwhile()
            msg = "the connection to Redshift was lost; run again"
            raise SessionLostError(msg)
        return real(self, text, params, what=what)

    monkeypatch.setattr(Session, "execute", execute)


def test_a_commit_lost_while_a_twin_loads_the_batch(redshift: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 1), batch_id="first")])
    message = redshift.batch(rows(10, 3), batch_id="b1")
    lose_a_commit(monkeypatch, lambda: redshift.run([schema(), message]))
    redshift.run([schema(), message, record(id=100, name="one"), record(id=101, name="two"), state(2)])
    assert redshift.ids() == [0, 10, 11, 12, 100, 101]


def test_what_a_twin_left_is_staged_again(redshift: Loads, failing_once: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 1), batch_id="first")])
    theirs, ours = redshift.batch(rows(10, 3), batch_id="b1"), redshift.batch(rows(20, 3), batch_id="b2")

    def twin() -> None:
        redshift.run([schema(), theirs])
        failing_once("put_manifest", 1)  # the group is staged again without b1, and the first attempt fails

    lose_a_commit(monkeypatch, twin)
    redshift.run([schema(), theirs, ours, state(2)])
    assert redshift.ids() == [0, 10, 11, 12, 20, 21, 22]
    assert dict(redshift.ledger()) == {"first": 1, "b1": 3, "b2": 3}


EXPIRED = "S3ServiceException:The provided token has expired.,Status 400,Error ExpiredToken"


def test_credentials_that_expire_are_asked_for_anew(
    redshift: Loads, redshift_faults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    redshift_faults({"match": "^COPY ", "action": "error", "code": "XX000", "message": EXPIRED, "times": 1})
    real, given = Connection.access, []

    def access(self: Connection) -> sql.Access:
        given.append(replace(real(self), session_token=f"token {len(given)}"))
        return given[-1]

    monkeypatch.setattr(Connection, "access", access)
    redshift.run([schema(), redshift.batch(rows(0, 3), batch_id="A")])
    assert redshift.ids() == [0, 1, 2]
    assert len(given) == 3  # of the COPY, of the check for others, and of the COPY that follows


def test_credentials_that_are_not_renewed_are_an_error_at_once(redshift: Loads, redshift_faults: Any) -> None:
    redshift_faults({"match": "^COPY ", "action": "error", "code": "XX000", "message": EXPIRED})
    with pytest.raises(CredentialsError, match="has expired.*renew the credentials in aws"):
        redshift.run([schema(), redshift.batch(rows(0, 3), batch_id="A")])
    assert redshift.ids() == []
