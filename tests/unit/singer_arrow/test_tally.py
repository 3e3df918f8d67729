from __future__ import annotations

from singer_arrow.singer.tally import Tally


def test_the_closing_line_tells_of_nul_characters_only_where_there_were_some() -> None:
    tally = Tally("rows")
    tally.add(batches=1, rows=3)
    assert "nul_characters" not in tally.counts()
    assert tally.line().startswith("rows: batches=1 records=0 files=0 load_jobs=0 rows=3 bytes=0 skipped=0 seconds=")
    tally.add(nul_characters=2)
    tally.add(nul_characters=1)
    assert tally.counts()["nul_characters"] == 3
    assert "skipped=0 nul_characters=3 seconds=" in tally.line()
