"""Identifiers of up to 127 bytes on a PostgreSQL that allows 63."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterable

LONGEST = 127
_SHORT = 63
_DIGITS = 16
_SHORTENED = re.compile(rf"~[0-9a-f]{{{_DIGITS}}}")


def fold(name: str) -> str:
    """Return a name with its ASCII letters in lower case, which Redshift does also between quotes."""
    return "".join(letter.lower() if "A" <= letter <= "Z" else letter for letter in name)


def cut(name: str, size: int = LONGEST) -> str:
    """Return a name cut to a number of bytes."""
    return name.encode()[:size].decode(errors="ignore")


def shortened(name: str) -> str:
    """Return the name for PostgreSQL: the same if it fits, else its beginning and a digest of the whole."""
    if len(name.encode()) <= _SHORT:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{cut(name, _SHORT - 1 - _DIGITS)}~{digest}"


class LongNames:
    """The long names in use, in both directions."""

    def __init__(self, known: Iterable[tuple[str, str]], keep: Callable[[str, str], object]) -> None:
        self._full = dict(known)  # long names by their short names, at first those of an earlier run
        self._keep = keep  # called once with each new pair, before the short name is used
        self._lock = threading.Lock()

    def short(self, name: str) -> str:
        """Return PostgreSQL's name for a name of Redshift."""
        name = cut(name)
        short = shortened(name)
        if short != name and short not in self._full:
            with self._lock:
                if short not in self._full:
                    self._keep(short, name)
                    self._full[short] = name
        return short

    def full(self, name: str) -> str:
        """Return Redshift's name for a name of PostgreSQL."""
        return self._full.get(name, name)

    def in_text(self, text: str) -> str:
        """Return a message of PostgreSQL with Redshift's names."""
        if _SHORTENED.search(text):
            for short, full in list(self._full.items()):
                text = text.replace(short, full)
        return text
