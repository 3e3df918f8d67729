from __future__ import annotations

import json

import pyarrow as pa
import pytest

from target_redshift.columns import NUL_REMOVE, NUL_REPLACE, first_nul, nul_count, without_nuls
from target_redshift.conversion import ValueReport

TEXTS = ["plain", None, "a\0b\0", "", "\0"]


@pytest.mark.parametrize(("choice", "symbol"), [(NUL_REPLACE, "␀"), (NUL_REMOVE, "")])
def test_text(choice: str, symbol: str) -> None:
    array = pa.array(TEXTS, pa.string())
    assert first_nul(array) == 2
    assert nul_count(array) == 3
    clean = without_nuls(array, choice)
    assert clean.to_pylist() == [t and t.replace("\0", symbol) for t in TEXTS]
    assert first_nul(clean) is None


@pytest.mark.parametrize(("choice", "symbol"), [(NUL_REPLACE, "␀"), (NUL_REMOVE, "")])
@pytest.mark.parametrize(
    "value",
    [
        "\0",
        "\0\0\0",
        "a\0",
        "\\\0",
        "\\\\\0\\",
        {"k\0": ["\0", {"\0\0": "x\0y"}]},
        "\\u0000",  # a backslash and letters, no NUL
        "\\\\u0000",
        "\\u0000\0",
        None,
        0,
    ],
)
def test_json(value: object, choice: str, symbol: str) -> None:
    def plain(found: object) -> object:
        if isinstance(found, str):
            return found.replace("\0", symbol)
        if isinstance(found, dict):
            return {plain(k): plain(v) for k, v in found.items()}
        return [plain(v) for v in found] if isinstance(found, list) else found

    def nuls(found: object) -> int:
        if isinstance(found, dict):
            return sum(nuls(k) + nuls(v) for k, v in found.items())
        if isinstance(found, list):
            return sum(map(nuls, found))
        return found.count("\0") if isinstance(found, str) else 0

    array = pa.array([None, "{}", json.dumps(value)])
    assert first_nul(array, is_json=True) == (2 if nuls(value) else None)
    assert nul_count(array, is_json=True) == nuls(value)
    clean = without_nuls(array, choice, is_json=True).to_pylist()
    assert clean[:2] == [None, "{}"]
    assert json.loads(clean[2]) == plain(value)


def test_nuls_keep_the_first_place() -> None:
    nuls = ValueReport()
    nuls.note(2, "a.parquet", "row 1")
    nuls.note(1, "b.parquet", "row 7")
    assert (nuls.count, nuls.url, nuls.place) == (3, "a.parquet", "row 1")
