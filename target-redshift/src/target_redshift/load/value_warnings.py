"""What is said of values that are not loaded as they came: of a stream's first ones, and a count of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from target_redshift import long_texts
from target_redshift.load.uploads import Part
from target_redshift.nul_characters import REMOVE, REPLACE, SYMBOL

if TYPE_CHECKING:
    from target_redshift.load.base import Way


def told(way: Way, part: Part) -> Part:
    """The part, and a word of what became of its NUL characters and long texts."""
    source = "RECORD messages" if part.item.is_temporary else None
    if part.nuls.count:
        if way.files.is_first(way.stream, "NUL"):
            way.logger.warning(
                "Stream %r: %s, %s holds a NUL character, which Redshift does not take; such characters are %s, "
                "set nul_text to choose otherwise",
                way.stream,
                source or part.nuls.url,
                part.nuls.place,
                {REPLACE: f"replaced by {SYMBOL}", REMOVE: "removed"}[way.files.nul_text],
            )
        way.tally.add(nul_characters=part.nuls.count)
    if part.long_texts.count:
        if way.files.is_first(way.stream, "long texts"):
            way.logger.warning(
                "Stream %r: %s, %s holds a text that is too long for its column; such texts are null there, and "
                "stand in column %s of their row; of more than 65,535 bytes it takes them only where the cluster's "
                "enable_large_strings_opt_in is on",
                way.stream,
                source or part.long_texts.url,
                part.long_texts.place,
                long_texts.COLUMN,
            )
        way.tally.add(long_texts=part.long_texts.count)
    return part
