"""`--about`."""

from __future__ import annotations

import pytest
from json_parsers import PARSERS, use

from tap_s3_files.tap import TapS3Files


@pytest.mark.parametrize("parser", PARSERS)
def test_about_says_which_parser_reads_json(parser: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        use(patch, parser)
        TapS3Files.print_about()
    assert f"JSON parser: {'pyarrow' if parser == 'plain' else 'singer-arrow-json'}\n" in capsys.readouterr().out
