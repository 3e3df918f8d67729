"""Draw the pictures of the documentation as SVG, light and dark: `python docs/pictures.py`; `--check` compares.

Each picture is a function below, which places boxes and arrows on a grid 640 wide, so that its texts of 18 are
readable on a screen 400 wide. The recording of the first load is drawn from docs/pictures/first-load.cast, which
docs/recording.py writes.
"""

# ruff: noqa: E501  texts are as long as they are in the pictures
from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

from written_files import write_or_check

FOLDER = Path(__file__).parent / "pictures"
WIDTH = 640
STYLE = """
.page{fill:#fff}.box{fill:#f1f6f6;stroke:#9fb9bd}.own{fill:#d9f0f2;stroke:#0b6e7c}.good{fill:#e3f3e6;stroke:#3d8361}
.bad{fill:#fde8e4;stroke:#b3402e}.warn{fill:#fff3dc;stroke:#b7791f}.line{stroke:#4a6468;fill:none}.tip{fill:#4a6468}
.red{stroke:#b3402e}text{fill:#14292d}.soft{fill:#4a6468}.hot{fill:#a63523}.ok{fill:#23693f}
@media(prefers-color-scheme:dark){.page{fill:#0e191b}.box{fill:#16262a;stroke:#4a6468}.own{fill:#0f3a41;stroke:#62cfdc}
.good{fill:#173422;stroke:#6fbf8b}.bad{fill:#41201b;stroke:#f08a78}.warn{fill:#3d2f12;stroke:#f5b041}.line{stroke:#a9c3c7}
.tip{fill:#a9c3c7}.red{stroke:#f08a78}text{fill:#e6f2f3}.soft{fill:#a9c3c7}.hot{fill:#ff9f8f}.ok{fill:#8fd6a8}}
""".replace("\n", "")
HEAD = '<path d="M0 0 8 4 0 8z" class="tip"/>'


class Picture:
    """Collects the shapes of a picture from top to bottom; texts are lines of 18 below each other."""

    def __init__(self, title: str, text: str) -> None:
        self._title, self._text = title, text
        self._shapes: list[str] = []
        self._bottom = 0.0

    def text(self, x: float, y: float, words: str, *, kind: str = "", size: int = 18, at: str = "start") -> None:
        """Write one line whose base is at y; `**` around it makes it bold, backquotes a name."""
        bold = words.startswith("**")
        font = ' font-family="ui-monospace,monospace"' if words.strip("*").startswith("`") else ""
        weight = ' font-weight="700"' if bold else ""
        anchor = f' text-anchor="{at}"' if at != "start" else ""
        named = f' class="{kind}"' if kind else ""
        size -= bool(font)
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}"{font}{weight}{anchor}{named}>{escape(words.strip("*").replace("`", ""))}</text>'
        )
        self._bottom = max(self._bottom, y + 6)

    def box(
        self, x: float, y: float, width: float, lines: Sequence[str], kind: str = "box", *, high: float = 0
    ) -> float:
        """Draw a box with lines of text, the first one bold; return where it ends."""
        height = high or 16 + 24 * len(lines)
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="{kind}" stroke-width="1.5"/>'
        )
        for number, line in enumerate(lines):
            self.text(x + 12, y + 26 + 24 * number, line, kind="" if line.startswith("**") else "soft")
        self._bottom = max(self._bottom, y + height)
        return y + height

    def arrow(self, *points: tuple[float, float], words: str = "", at: tuple[float, float] = (0, 0)) -> None:
        """Draw a line through points with a tip at its end, and words beside it."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        self._shapes.append(f'<path d="{path}" class="line" stroke-width="2" marker-end="url(#tip)"/>')
        if words:
            self.text(*at, words, kind="soft", size=17)

    def kill(self, y: float, words: str) -> None:
        """Draw the moment of a kill: a dashed line across the picture, and what follows."""
        self._shapes.append(f'<path d="M12 {y:g}H628" class="line red" stroke-width="2.5" stroke-dasharray="8 6"/>')
        self.text(84, y - 8, words, kind="hot", size=17)

    def svg(self) -> str:
        """Return the picture."""
        high = self._bottom + 14
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high:g}" width="{WIDTH}" height="{high:g}" '
            f'font-family="Inter,Segoe UI,system-ui,sans-serif" role="img" aria-labelledby="t d"><title id="t">{self._title}'
            f'</title><desc id="d">{escape(self._text)}</desc><style>{STYLE}</style><defs><marker id="tip" markerWidth="8" '
            f'markerHeight="8" refX="6" refY="4" orient="auto">{HEAD}</marker></defs>'
            f'<rect width="{WIDTH}" height="{high:g}" rx="10" class="page"/>\n' + "\n".join(self._shapes) + "\n</svg>\n"
        )


def pipeline() -> Picture:
    """Draw what runs, and what goes through the pipe."""
    p = Picture(
        "The pipeline",
        "tap-s3-files reads objects of S3 and writes batch files; BATCH and STATE messages go through the pipe; "
        "target-bigquery loads the files by load jobs, target-redshift by one COPY; both record each batch in a ledger.",
    )
    p.box(12, 14, 616, ["**Objects in S3", "CSV, JSON, Parquet, Avro, ORC, Excel, XML, Delta Lake, Iceberg"])
    p.arrow((160, 78), (160, 112), words="parts that are needed, in parallel", at=(176, 102))
    p.box(12, 114, 616, ["**`tap-s3-files", "plans, converts to Arrow, holds each row to one schema"], "own")
    p.arrow((160, 178), (160, 212), words="rows: Parquet, JSON, Arrow", at=(176, 202))
    p.box(12, 214, 300, ["**Batch files", "on S3, GCS, Azure or disk"], high=88)
    p.box(328, 214, 300, ["**The pipe", "SCHEMA, BATCH, STATE:", "names of files, no rows"], "warn")
    p.arrow((478, 178), (478, 212), words="messages", at=(494, 202))
    p.arrow((160, 302), (160, 338))
    p.arrow((478, 302), (478, 338))
    p.box(
        12,
        340,
        616,
        ["**`target-bigquery`, or `target-redshift", "load jobs side by side; or one COPY for many files"],
        "own",
    )
    p.arrow((160, 404), (160, 438))
    p.box(
        12,
        440,
        616,
        ["**Your tables, and the ledger `_sdc_batches`", "then STATE is written: the next run continues there"],
        "good",
    )
    return p


def kill_and_state() -> Picture:
    """Draw batch, ledger and STATE in their order, and what a kill at each moment leaves."""
    p = Picture(
        "Batch, ledger and STATE",
        "In order: the tap writes a batch file, whose id follows from what it holds; the target loads its "
        "rows and enters it in the ledger, in Redshift in one transaction, in BigQuery by a job whose id the ledger has; then STATE is written. A kill before the load: the batch comes again and is loaded. A kill after "
        "it, before STATE: the batch comes again with the same id, is found in the ledger and left out.",
    )
    p.box(12, 14, 616, ["**1  Batch file", "durable first; its id is decided once, in the plan log"], "own")
    p.arrow((60, 78), (60, 150))
    p.kill(108, "killed here: not loaded")
    p.text(230, 134, "next run: same batch, same id, loaded", kind="ok", size=17)
    p.box(
        12,
        152,
        616,
        ["**2  Rows, and their entry in the ledger", "Redshift: one transaction; BigQuery: the entry names its job"],
        "own",
    )
    p.arrow((60, 216), (60, 288))
    p.kill(246, "killed here: loaded, STATE is old")
    p.text(230, 272, "next run: id is in the ledger, left out", kind="ok", size=17)
    p.box(12, 290, 616, ["**3  STATE", "only after everything before it is durable"], "own")
    p.arrow((60, 354), (60, 426))
    p.kill(384, "killed here: all is recorded")
    p.text(230, 410, "next run: begins with what is new", kind="ok", size=17)
    p.box(12, 428, 616, ["**Nothing is lost, nothing is loaded twice"], "good")
    return p


def load_methods() -> Picture:
    """Draw a table before and after each load method."""
    p = Picture(
        "append-only, upsert, overwrite",
        "A table has the rows 1 a and 2 b; a run brings 2 B and 3 c. append-only: 1 a, 2 b, 2 B, 3 c. upsert by the key id: 1 a, "
        "2 B, 3 c. overwrite: 2 B, 3 c, and the rows before are gone.",
    )
    p.text(20, 30, "**The table before", size=18)
    p.text(360, 30, "**The run brings", size=18)
    _rows(p, 12, 42, ["1  a", "2  b"], "box")
    _rows(p, 352, 42, ["2  B", "3  c"], "own")
    p.text(12, 156, "**After", size=18)
    for x, name, note, rows in (
        (12, "append-only", "every row is added", [("1  a", "box"), ("2  b", "box"), ("2  B", "own"), ("3  c", "own")]),
        (222, "upsert", "by its key, id", [("1  a", "box"), ("2  B", "own"), ("3  c", "own")]),
        (432, "overwrite", "all at once, at the end", [("2  B", "own"), ("3  c", "own")]),
    ):
        p.text(x + 4, 188, f"**`{name}")
        p.text(x + 4, 212, note, kind="soft", size=17)
        for number, (row, kind) in enumerate(rows):
            _rows(p, x, 224 + 42 * number, [row], kind, width=196)
    p.text(448, 336, "1 a, 2 b are gone", kind="hot", size=17)
    p.text(238, 378, "2 b was replaced", kind="ok", size=17)
    return p


def _rows(p: Picture, x: float, y: float, rows: Iterable[str], kind: str, *, width: float = 276) -> None:
    for number, row in enumerate(rows):
        p.box(x, y + 42 * number, width, [f"`{row}"], kind, high=38)


def drift_and_bad_rows() -> Picture:
    """Draw where a new column, a wider type and a bad value go."""
    p = Picture(
        "Changed columns and bad rows",
        "A file with a new column or another type meets on_drift: evolve widens the table, fail ends the run, rescue puts what "
        "does not fit into _sdc_rescued. A row that cannot be read meets on_bad_row: fail ends the run and names file, line and "
        "column; skip leaves it out; rescue keeps it; dead_letter puts it into the table _sdc_rejected.",
    )
    p.box(12, 14, 300, ["**A column is new,", "**or has another type", "`price,colour"], "warn")
    p.box(328, 14, 300, ["**A value does not fit,", "**or a row is broken", "`12,50 in a number"], "warn")
    p.arrow((160, 102), (160, 134), words="`on_drift", at=(174, 124))
    p.arrow((478, 102), (478, 134), words="`on_bad_row", at=(492, 124))
    for x, boxes in (
        (
            12,
            [
                ("good", "evolve", "the table gets wider", " (default)"),
                ("bad", "fail", "names column and types", ""),
                ("box", "rescue", "into _sdc_rescued", ""),
            ],
        ),
        (
            328,
            [
                ("bad", "fail", "names file, line, column", " (default)"),
                ("box", "rescue", "into _sdc_rescued", ""),
                ("box", "dead_letter", "into table _sdc_rejected", ""),
                ("box", "skip", "left out and counted", ""),
            ],
        ),
    ):
        for number, (kind, word, note, default) in enumerate(boxes):
            p.box(x, 136 + 76 * number, 300, [f"**`{word}{default}", note], kind)
    return p


def threads_shards_dask() -> Picture:
    """Draw how to choose between threads, shards and Dask."""
    p = Picture(
        "Threads, shards or Dask",
        "If one machine is fast enough, threads, the default, need nothing. If not, and a scheduler can start several containers "
        "or jobs, shards share a plan. If a Dask cluster is there already, the tap sends its tasks to the workers.",
    )
    p.box(
        12, 14, 616, ["**Is one machine fast enough?", "--plan shows bytes and files before anything is read"], "warn"
    )
    p.arrow((110, 78), (110, 118), words="yes", at=(124, 104))
    p.arrow((420, 78), (420, 118), words="no", at=(434, 104))
    p.box(12, 120, 200, ["**Threads", "the default;", "`max_workers"], "good", high=188)
    p.box(228, 120, 400, ["**Is a Dask cluster there already?"], "warn")
    p.arrow((320, 160), (320, 202), words="no", at=(334, 188))
    p.arrow((530, 160), (530, 202), words="yes", at=(544, 188))
    p.box(228, 204, 192, ["**Shards", "`shard: 2/4", "jobs share a plan"], "own", high=104)
    p.box(436, 204, 192, ["**Dask", "`executor: dask", "its workers convert"], "own", high=104)
    p.box(
        12,
        324,
        616,
        ["**Each way: same batch ids, same rows, once", "a load may begin with one and continue with another"],
    )
    return p


def types() -> Picture:
    """Draw the way of values from a file to a column."""
    p = Picture(
        "The way of a file through its types",
        "A value in a file gets an Arrow type, from the file's own schema, a sample or the setting schema; the SCHEMA message "
        "names it as JSON Schema; the target makes a column of BigQuery or Redshift of it. Nothing is rounded or cut: what does "
        "not fit is an error or a choice.",
    )
    p.box(12, 14, 616, ["**In the file", 'Parquet DECIMAL(10,2), CSV 2026-05-01, JSON {"a": 1}'])
    p.arrow((160, 78), (160, 112), words="file's schema, a sample, or `schema`", at=(176, 102))
    p.box(12, 114, 616, ["**Arrow type of the stream", "decimal128(10, 2), date32, struct"], "own")
    p.arrow((160, 178), (160, 212), words="SCHEMA message; batch files keep it exactly", at=(176, 202))
    p.box(12, 214, 616, ["**JSON Schema", "number in steps of 0.01, string of format date, object"], "own")
    p.arrow((160, 278), (160, 312))
    p.arrow((478, 278), (478, 312))
    p.box(12, 314, 300, ["**BigQuery", "NUMERIC, DATE, RECORD"], "good")
    p.box(328, 314, 300, ["**Redshift", "DECIMAL(10, 2), DATE, SUPER"], "good")
    p.text(20, 408, "Nothing is rounded, cut or made null on the way: what does not fit", kind="soft", size=17)
    p.text(20, 432, "ends the run, or goes where on_bad_row and on_drift put it.", kind="soft", size=17)
    return p


PICTURES: dict[str, Callable[[], Picture]] = {
    "pipeline": pipeline,
    "kill-and-state": kill_and_state,
    "load-methods": load_methods,
    "drift-and-bad-rows": drift_and_bad_rows,
    "threads-shards-dask": threads_shards_dask,
    "types": types,
}


# The recording: lines of a terminal, each shown from a moment on, or for a while.

CHARACTER, LINE, MARGIN, BAR = 8.6, 20, 18, 34
ESCAPE = re.compile(r"\x1b\[([\d;]*)([mK])")
COLOURS = {
    "32": "#8fd6a8",
    "36": "#62cfdc",
    "38;5;237": "#3d5358",
    "38;5;70": "#8fd6a8",
    "90": "#3d5358",
    "1": "#f5b041",
}


def recording(cast: str, *, moves: bool = True, width: int = 0) -> str:
    """Draw an asciicast: what changes is animated; its last screen is shown if nothing is to move, or nothing can.

    Its lines are broken at a number of characters, or as the terminal broke them.
    """
    head, *rows = map(json.loads, cast.splitlines())
    width = width or head["width"]
    end = rows[-1][0] + 1
    shown: list[tuple[int, float, float, str]] = []  # row, from, until, text with its escapes
    screen, since, current = {}, {}, 0
    for moment, _, text in rows:
        for part in re.split(r"(\r\n|\r\x1b\[2K)", text):
            before = screen.get(current, "")
            if part == "\r\n":
                current += 1
                continue
            now = "" if part == "\r\x1b[2K" else before + part
            if now == before:
                continue
            if before and moment > since[current]:
                shown.append((current, since[current], moment, before))
            screen[current], since[current] = now, moment
    shown += [(row, since[row], end, text) for row, text in screen.items() if text]
    wrapped = _wrapped(shown, width)
    lines = "\n".join(_line(*each, end, moves=moves) for each in wrapped if moves or each[2] >= end)
    high = MARGIN + BAR + LINE * (1 + max(row for row, *_ in wrapped))
    wide = 2 * MARGIN + CHARACTER * width
    words = " ".join(ESCAPE.sub("", text) for text in screen.values() if "━" not in text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" width="{wide:g}" height="{high:g}" '
        f'font-family="ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14.2" role="img" '
        f'aria-labelledby="t d"><title id="t">The first load, in a terminal</title><desc id="d">{escape(words)}</desc>'
        "<style>text{fill:#e6f2f3;white-space:pre}@keyframes off{from,to{visibility:hidden}}"
        "@keyframes on{from,to{visibility:visible}}.t{visibility:hidden}"
        "@media(prefers-reduced-motion:reduce){text{animation:none!important}}</style>"
        f'<rect width="{wide:g}" height="{high:g}" rx="10" fill="#0b1f24" stroke="#2a4a50"/>'
        '<g fill="#3d5358"><circle cx="20" cy="17" r="5"/><circle cx="38" cy="17" r="5"/><circle cx="56" cy="17" r="5"/></g>\n'
        f"{lines}\n</svg>\n"
    )


def _wrapped(shown: list[tuple[int, float, float, str]], width: int) -> list[tuple[int, float, float, str]]:
    """Return the lines as a terminal breaks them, and with the lines below them moved."""
    heights: dict[int, int] = {}
    for row, _, _, text in shown:
        heights[row] = max(heights.get(row, 1), len(_broken(text, width)))
    found, above = [], 0
    for row in range(max(heights) + 1):
        for _, since, until, text in (each for each in shown if each[0] == row):
            for number, part in enumerate(_broken(text, width)):
                found.append((above + number, since, until, part))
        above += heights.get(row, 1)
    return found


def _broken(text: str, width: int) -> list[str]:
    """Return a line in parts of whole words that fit the terminal; escapes take no place."""
    plain, starts = ESCAPE.sub("", text), [0]
    while len(plain) - starts[-1] > (room := width - 4 * (len(starts) > 1)):  # later parts are indented
        starts.append(plain.rfind(" ", starts[-1], starts[-1] + room) + 1)
    parts, place = [""], 0
    for piece in re.split(r"(\x1b\[[\d;]*m)", text):
        if piece.startswith("\x1b"):
            parts[-1] += piece
            continue
        for character in piece:
            if place in starts[1:]:
                parts.append("    ")
            parts[-1] += character
            place += 1
    return parts


def _line(row: int, since: float, until: float, text: str, end: float, *, moves: bool) -> str:
    spans, colour = [], ""
    for piece in re.split(r"(\x1b\[[\d;]*m)", text):
        if match := ESCAPE.fullmatch(piece):
            colour = COLOURS.get(match[1], "")
        elif piece:
            spans.append(f'<tspan fill="{colour}">{escape(piece)}</tspan>' if colour else escape(piece))
    is_last = until >= end
    timing = f"off {since:g}s" if is_last else f"on {until - since:.2f}s {since:g}s"
    kind = "" if is_last else ' class="t"'
    animation = f' style="animation:{timing}"' if moves else ""
    return (
        f'<text x="{MARGIN}" y="{BAR + LINE * (row + 1) - 6}"{kind} textLength="{CHARACTER * len(ESCAPE.sub("", text)):.1f}"'
        f"{animation}>{''.join(spans)}</text>"
    )


def main() -> int:
    """Write, or check."""
    files = {FOLDER / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}
    cast = (FOLDER / "first-load.cast").read_text()
    files[FOLDER / "first-load.svg"] = recording(cast)
    files[FOLDER / "first-load-still.svg"] = recording(cast, moves=False)
    files[FOLDER / "first-load-narrow.svg"] = recording(cast, width=46)
    return write_or_check(files)


if __name__ == "__main__":
    sys.exit(main())
