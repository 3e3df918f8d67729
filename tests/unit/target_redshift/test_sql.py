"""All SQL statements follow Redshift's rules, and no name or value changes a statement's meaning."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redshift_sql as docs
from redshift_connector.core import convert_paramstyle
from redshift_rules import broken_rules, parts, skeleton

from singer_arrow.errors import SchemaError
from target_redshift import sql
from target_redshift.sql import Access
from target_redshift.types import Column

ROOT = Path(__file__).parents[3]
HOSTILE = {
    "double quote": 'a"; DROP TABLE "x"; --',
    "single quote": "a'; DROP TABLE x; --",
    "backslash": "a\\",
    "backslashed quote": "a\\'; DROP TABLE x; --\\",
    "newline": "a\nb; DROP TABLE x",
    "unicode": "na\u00efve \u540d\u524d \U0001f642 \u202e",
    "200 bytes": "ü" * 100,
    "percent": "%s %d %% {} $1 :name ?",
    "comment": "/* -- */",
    "dollar quote": "$$ $a$",
    "reserved word": "select",
    "spaces": "  ",
    "upper case": "SELECT",
}


def texts(names: Any) -> list[Any]:
    return [e for chapter in docs.Examples(names).chapters() for e in chapter.examples]


def hostile_names(text: str) -> Any:
    """Replace all names and values with hostile ones; the column names stay distinct."""
    return docs.Names(
        schema=text,
        table=text,
        user=text,
        stage=f"s3://bucket/{text}",
        comment=text,
        role=text,
        access=Access(access_key_id=text, secret_access_key=text, session_token=text),
        staging=text,
        other_staging=f"{text}2",
        merged=f"{text}3",
        rename=lambda name: f"{text}{name}",
    )


@pytest.mark.parametrize("example", texts(docs.Names()), ids=lambda e: e.name)
def test_redshift_takes_each_text(example: Any) -> None:
    assert not broken_rules(example.text)
    assert example.has_parameters == ("%s" in example.text)


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_names_and_values_change_nothing_but_themselves(hostile: str) -> None:
    tame = texts(docs.Names())
    for given, example in zip(texts(hostile_names(hostile)), tame, strict=True):
        assert not broken_rules(given.text), given.text
        assert skeleton(given.text) == skeleton(example.text)
        assert skeleton(convert_paramstyle("format", given.text)[0]) == skeleton(
            convert_paramstyle("format", example.text)[0]
        )


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_what_is_quoted_can_be_read_back(hostile: str) -> None:
    [(kind, name)] = parts(sql.quoted(hostile))
    assert kind == "name"
    assert name[1:-1].replace('""', '"') == hostile
    [(kind, text)] = parts(sql.literal(hostile))
    assert kind == "text"
    assert text[1:-1].replace("''", "'").replace("\\\\", "\\") == hostile


@pytest.mark.parametrize("quote", [sql.quoted, sql.literal])
def test_a_nul_is_refused(quote: Callable[[str], str]) -> None:
    with pytest.raises(SchemaError, match="NUL"):
        quote("a\0b")


def test_every_text_has_an_example() -> None:
    made = {
        name
        for name, value in vars(sql).items()
        if (inspect.isfunction(value) and value.__module__ == sql.__name__ and not name.startswith("_"))
        or (isinstance(value, str) and name.isupper() and " " in value)
    }
    not_statements = {"quoted", "literal", "listed", "masked", "role_of", "PLACE"}
    assert made - not_statements <= {e.name for e in texts(docs.Names())} | {"PRIVILEGES"}


@pytest.mark.full
def test_the_page_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "redshift_sql.py", "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_no_other_module_makes_sql() -> None:
    statement = re.compile(
        r"""f?["'](SELECT\b.*\bFROM|INSERT INTO|DELETE FROM|CREATE (TEMP )?TABLE|CREATE SCHEMA|ALTER TABLE|MERGE INTO"""
        r"""|COPY ["'{]|GRANT \w+ ON|LOCK TABLE|DROP TABLE|UPDATE .*\bSET\b)"""
    )
    for file in (ROOT / "target-redshift" / "src").rglob("*.py"):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            assert file.name == "sql.py" or not statement.search(line), f"{file.name}:{number}: {line}"


class TestSecrets:
    def test_keys_are_not_in_masked_texts(self) -> None:
        access = Access(access_key_id="AKIA'1", secret_access_key="se\\cr'et;x", session_token="to'ken")
        for text in (
            sql.copy_parquet('"t"', "s3://b/m", access),
            sql.copy_json('"t"', "s3://b/m", access),
            sql.copy_csv('"t"', "s3://b/m", access),
        ):
            shown = sql.masked(text)
            assert "***" in shown
            for part in ("AKIA", "cr'", "et;x", "ken"):
                assert part not in shown
            assert not broken_rules(shown)

    def test_they_are_not_in_the_repr(self) -> None:
        assert "hush" not in repr(Access(access_key_id="hush", secret_access_key="hush", session_token="hush"))

    def test_a_role_is_no_secret(self) -> None:
        text = sql.copy_parquet('"t"', "s3://b/m", Access(role="arn:aws:iam::123456789012:role/r"))
        assert sql.masked(text) == text
        assert sql.role_of(text) == "arn:aws:iam::123456789012:role/r"
        assert sql.role_of('SELECT 1 AS "IAM_ROLE x"') is None
        assert " IAM_ROLE 'arn:aws:iam::123456789012:role/r' " in text

    def test_the_clusters_own_role_is_a_word(self) -> None:
        assert " IAM_ROLE default " in sql.copy_parquet('"t"', "s3://b/m", Access(role="default"))


class TestTheRules:
    """Tests that the rules detect violations."""

    @pytest.mark.parametrize(
        ("text", "rule_text"),
        [
            (
                "COPY \"t\" FROM 's3://b/m' IAM_ROLE 'r' FORMAT AS PARQUET MANIFEST STATUPDATE OFF COMPUPDATE OFF",
                "COMPUPDATE",
            ),
            ("COPY \"t\" FROM 's3://b/m' IAM_ROLE 'r' FORMAT AS PARQUET MANIFEST STATUPDATE OFF REGION 'x'", "REGION"),
            ("COPY \"t\" FROM %s IAM_ROLE 'r' FORMAT AS PARQUET MANIFEST STATUPDATE OFF", "bound"),
            ("COPY \"t\" FROM 's3://b/m' IAM_ROLE 'r' FORMAT AS JSON 'auto' MANIFEST TRUNCATECOLUMNS", "bent"),
            ('ALTER TABLE "s"."t" ADD COLUMN "a" BIGINT, ADD COLUMN "b" BIGINT', "one column"),
            ('ALTER TABLE "s"."t" ADD COLUMN IF NOT EXISTS "a" BIGINT', "one column"),
            ('ALTER TABLE "s"."t" ALTER COLUMN "a" TYPE VARCHAR(65536)', "65,535"),
            ('CREATE TABLE "s"."t" ("a" TEXT)', "type"),
            ('CREATE TABLE "s"."t" ("a" DECIMAL(39, 1))', "38 digits"),
            ('MERGE INTO "s"."t" AS t USING "x" ON t."a" = "x"."a" WHEN MATCHED THEN DELETE', "form"),
            ('INSERT INTO "t" VALUES (1) ON CONFLICT DO NOTHING', "ON CONFLICT"),
            ('DELETE FROM "t"; DROP TABLE "t"', "more than one"),
            ("SELECT 'a", "not closed"),
        ],
    )
    def test_each_is_found(self, text: str, rule_text: str) -> None:
        assert any(rule_text in rule for rule in broken_rules(text))


def test_merge_sets_no_key() -> None:
    keys = [docs.Examples(docs.Names()).columns[0].name]
    text = sql.merge("s", "t", '"m"', docs.Examples(docs.Names()).columns, keys)
    assert f'SET "{keys[0]}"' not in text
    assert f', "{keys[0]}" = ' not in text


def test_a_staged_order_is_no_column_of_the_table() -> None:
    ordered, _ = [e.text for e in texts(docs.Names()) if e.name == "create_merged" and "ROW_NUMBER" in e.text]
    assert ordered.startswith('CREATE TEMP TABLE "_sdc_staging_3" AS SELECT "order_id"')
    outer = ordered.partition(" AS SELECT ")[2].partition(" FROM ")[0]
    assert "_sdc_order" not in outer


def test_many_columns_and_values() -> None:
    column = docs.Examples(docs.Names()).columns[0]
    columns: list[Column] = [replace(column, name=f"c{i}") for i in range(1_600)]
    assert not broken_rules(sql.create_table('"s"."t"', columns))
    assert broken_rules(sql.create_table('"s"."t"', [*columns, replace(column, name="x")]))
