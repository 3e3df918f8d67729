"""A client of the local Redshift: one interface to two drivers, psycopg and redshift_connector."""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest
import redshift_connector

from local_cloud import Cloud

ROLE = "iam_role 'arn:aws:iam::123456789012:role/copies'"


class Refused(Exception):  # noqa: N818 - an answer
    """Raised for an error message of the server, by either driver."""

    def __init__(self, code: str, message: str, detail: str) -> None:
        super().__init__(f"{code} {message} {detail}")
        self.code, self.message, self.detail = code, message, detail


class Lost(Exception):  # noqa: N818 - an event
    """Raised when the connection is lost."""


class Client:
    """A connection by either driver."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def __call__(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            cursor = self.connection.cursor()
            cursor.execute(sql, values or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        except psycopg.Error as error:
            details = error.diag
            if details.sqlstate is None or self.connection.closed:
                raise Lost(str(error)) from None
            raise Refused(details.sqlstate, details.message_primary or "", details.message_detail or "") from None
        except (redshift_connector.InterfaceError, OSError) as error:
            raise Lost(str(error)) from None
        except redshift_connector.Error as error:
            fields = error.args[0]
            raise Refused(fields["C"], fields["M"], fields.get("D", "")) from None

    def names(self, sql: str) -> list[str]:
        """Return the column names of a query's result."""
        cursor = self.connection.cursor()
        cursor.execute(sql)
        cursor.fetchall()
        return [text if isinstance(text := column[0], str) else text.decode() for column in cursor.description]

    def close(self) -> None:
        """End the connection."""
        try:
            self.connection.close()
        except (psycopg.Error, redshift_connector.Error, OSError) as error:
            raise Lost(str(error)) from None


Open = Callable[..., Client]


def opener(cloud: Cloud, driver: str) -> Open:
    """Returns connections of a driver, by default in autocommit mode."""
    facts = cloud.services["redshift"].facts
    own = {"user": facts["user"], "password": cloud.env["TARGET_REDSHIFT_PASSWORD"], "dbname": facts["dbname"]}

    def begin(*, autocommit: bool = True, **options: Any) -> Client:
        given = own | {"host": facts["host"], "port": facts["port"]} | options
        if driver == "psycopg":
            return Client(psycopg.connect(autocommit=autocommit, **given))
        given["database"] = given.pop("dbname")
        connection = redshift_connector.connect(**{"ssl": False} | given)
        connection.autocommit = autocommit
        return Client(connection)

    return begin


def refused(client: Client, statement: str, values: Sequence[object] = ()) -> Refused:
    """Return the server's error message for a statement that it refuses."""
    with pytest.raises(Refused) as caught:
        client(statement, values)
    return caught.value
