"""Warns of changed NUL characters and rescued long texts: once per stream and kind, with a count of all."""

from __future__ import annotations

from target_redshift import long_texts
from target_redshift.load.context import RedshiftContext
from target_redshift.load.uploads import PreparedItem
from target_redshift.nul_characters import REMOVE, REPLACE, SYMBOL


def warn_of_values(context: RedshiftContext, part: PreparedItem) -> PreparedItem:
    """Log a warning and count the NUL characters and long texts of an item; return the item."""
    source = "RECORD messages" if part.item.is_temporary else None
    if part.nuls.count:
        if context.files.is_first(context.stream, "NUL"):
            context.logger.warning(
                "Stream %r: %s, %s holds a NUL character, which Redshift does not take; such characters are %s, "
                "set nul_text to choose otherwise",
                context.stream,
                source or part.nuls.url,
                part.nuls.place,
                {REPLACE: f"replaced by {SYMBOL}", REMOVE: "removed"}[context.files.nul_text],
            )
        context.tally.add(nul_characters=part.nuls.count)
    if part.long_texts.count:
        if context.files.is_first(context.stream, "long texts"):
            context.logger.warning(
                "Stream %r: %s, %s holds a text that is too long for its column; such texts are null there, and "
                "are kept in column %s of their row; of more than 65,535 bytes it takes them only where the cluster's "
                "enable_large_strings_opt_in is on",
                context.stream,
                source or part.long_texts.url,
                part.long_texts.place,
                long_texts.COLUMN,
            )
        context.tally.add(long_texts=part.long_texts.count)
    return part
