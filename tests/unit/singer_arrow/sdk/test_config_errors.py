"""Unknown and invalid settings are named, with suggestions, and without secrets."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from singer_arrow.errors import ConfigError
from singer_arrow.sdk.settings import json_object, object_file, problems

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["streams"],
    "properties": {
        "streams": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": True,
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "format": {"type": "string", "enum": ["csv", "jsonl"]},
                    "schema": {"type": "object"},
                },
            },
        },
        "aws": {
            "type": "object",
            "properties": {"secret_access_key": {"type": "string", "writeOnly": True, "maxLength": 3}},
        },
        "stream_maps": {"type": "object", "properties": {"__else__": {}}, "additionalProperties": {"type": "string"}},
        "max_workers": {"type": "integer", "minimum": 1},
    },
}


def found(config: dict[str, Any]) -> list[str]:
    return problems(config, SCHEMA, Draft202012Validator(SCHEMA).iter_errors(config))


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"stream": []}, "Setting 'stream' does not exist; did you mean 'streams'?"),
        (
            {"streams": [{"name": "a", "fromat": "csv"}]},
            "Setting 'streams[0].fromat' does not exist; did you mean 'format'?",
        ),
        (
            {"streams": [{"name": "a", "zzzz": 1}]},
            "Setting 'streams[0].zzzz' does not exist; streams[0] has name, format, schema",
        ),
        ({}, "The settings lack 'streams'"),
        ({"streams": [{}]}, "Setting 'streams[0]' lacks 'name'"),
        ({"streams": {}}, "Setting 'streams' must be a list, it is an object"),
        (
            {"streams": [{"name": "a", "format": "xml"}]},
            "Setting 'streams[0].format' is 'xml', it must be one of 'csv', 'jsonl'",
        ),
        (
            {"streams": [], "max_workers": 0},
            "Setting 'max_workers' is not valid: 0 is less than the minimum of 1",
        ),
    ],
)
def test_a_problem_is_one_line_that_names_the_setting(config: dict[str, Any], line: str) -> None:
    assert line in found(config)


def test_free_objects_hold_any_name() -> None:
    config = {"streams": [{"name": "a", "schema": {"any": "integer"}}], "stream_maps": {"x": "y"}}
    assert found(config) == []


@pytest.mark.parametrize("secret", ["hunter2secret", 12345])
def test_a_secret_is_never_repeated(secret: object) -> None:
    lines = found({"streams": [], "aws": {"secret_access_key": secret}})
    assert len(lines) == 1
    assert str(secret) not in lines[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3cret", "config is not valid JSON"),
        (b"\xff", "config is not valid JSON"),
        ('{"a": 1}'.encode("utf-16"), "config is not valid JSON: it is not text in UTF-8"),
        ("[" * 100_000, "config is not valid JSON"),
        ('["s3cret"]', "config must hold a JSON object"),
    ],
    ids=["text", "bytes", "UTF-16", "deep", "list"],
)
def test_what_is_no_json_object_is_one_line_that_holds_nothing_of_it(text: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        json_object(text, "config")
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


LAUGHS = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(12))


@pytest.mark.parametrize(
    ("suffix", "text", "words"),
    [
        (".yml", LAUGHS, "more than 1,000,000 values"),
        (".yml", "a: &a [*a]", "deeper than 100 levels"),
        (".yml", "a: !!int s3cret", "not valid YAML: a value is not what its tag demands"),
        (".yml", "a: " + "[" * 20_000 + "]" * 20_000, "not valid YAML: values nest too deeply"),
        (".yml", "a: [1, .inf]", "numbers must be finite"),
        (".json", '{"a": {"b": 1e400}}', "numbers must be finite"),
        (".json", '{"a": NaN}', "numbers must be finite"),
        (".json", '{"a": ' + "[" * 900 + "]" * 900 + "}", "deeper than 100 levels"),
    ],
)
@pytest.mark.full(".yml-text3-not valid YAML: values nest too deeply")
def test_what_is_too_much_for_settings(tmp_path: Path, suffix: str, text: str, words: str) -> None:
    (tmp_path / f"c{suffix}").write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        object_file(str(tmp_path / f"c{suffix}"), "config")
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_json_objects_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('\ufeff{"a": 1}')
    assert object_file(str(tmp_path / "c.json"), "config") == json_object('{"a": 1}', "config") == {"a": 1}
    with pytest.raises(ConfigError, match="config cannot be read: No such file"):
        object_file(str(tmp_path / "none.json"), "config")


def test_yaml_is_read_as_json_would_be(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text("# a comment\nstart_date: 2024-01-01\ncountry: no\nflag: true\nlist: [1, 2.5, null]\nfree: \n")
    assert object_file(str(file), "config") == {
        "start_date": "2024-01-01",
        "country": "no",
        "flag": True,
        "list": [1, 2.5, None],
        "free": None,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a: s3cret: b", "config is not valid YAML: mapping values are not allowed here, line 1, column 10"),
        (b"- s3cret", "config must hold a YAML mapping"),
        (b"a: !!python/object:os.system s3cret", "config is not valid YAML: could not determine a constructor"),
        (b"\xff", "config is not valid YAML"),
        (b"", "config must hold a YAML mapping"),
    ],
)
def test_what_is_no_yaml_mapping_is_one_line_that_holds_nothing_of_it(tmp_path: Path, text: bytes, words: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=words) as caught:
        object_file(str(file), "config")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.yml", "tap: {a: 1}\ntarget: 2\ntap: {b: 1}", "config, line 3, has 'tap' twice"),
        ("c.yml", "a:\n  b: 1\n  c: 2\n  b: 3", "config, line 4, has 'b' twice"),
        ("c.json", '{"tap": 1, "a": {"x": 1, "x": 1}}', "config has 'x' twice"),
    ],
)
def test_a_name_that_is_there_twice_is_named(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=f"^{words}, and one of them would not count; leave it out$"):
        object_file(str(tmp_path / name), "config")


def test_a_mapping_may_replace_what_it_merges(tmp_path: Path) -> None:
    text = "base: &base {a: 1, b: 2}\nouter: {inner: &own {<<: *base, b: 3}}\nother: {<<: *own}\n"
    (tmp_path / "c.yml").write_text(text)
    found = object_file(str(tmp_path / "c.yml"), "config")
    assert (found["outer"]["inner"], set(found["other"])) == ({"a": 1, "b": 3}, {"a", "b"})
