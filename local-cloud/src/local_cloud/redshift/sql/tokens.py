"""SQL as tokens, whose texts joined are the SQL again; a backslash in a plain string escapes, as in Redshift. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from local_cloud.redshift.errors import RedshiftError, syntax_error

Kind = Literal["space", "comment", "string", "dollar", "name", "number", "word", "param", "operator"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<line_comment>--[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>(?:[eE]|[bB]|[xX])?'(?:[^'\\]++|''|\\.)*+')
  | (?P<dollar>\$(?P<tag>(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?)\$.*?\$(?P=tag)\$)
  | (?P<name>"(?:[^"]++|"")*+")
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[#A-Za-z_\x80-\U0010ffff][\w$#\x80-\U0010ffff]*)
  | (?P<param>\$\d+)
  | (?P<operator>::|<=|>=|<>|!=|\|\||:=|->>|->|.)
    """,
    re.DOTALL | re.VERBOSE,
)
# The kinds of the groups of the pattern.
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)} | {"line_comment": "comment", "tag": "dollar"}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL as written."""

    # `word`: a keyword or a plain identifier (also `#temporary`), `name` a quoted identifier, `dollar` a dollar-quoted
    # string, `string` any string in single quotes (E'...' too).
    kind: Kind
    text: str

    @property
    def low(self) -> str:
        """The text to compare with keywords and punctuation: a word in lower case, any other token as written."""
        return self.text.lower() if self.kind == "word" else self.text

    @property
    def value(self) -> str:
        """The text between the quotes with doubled quotes made one and backslashes kept; a word as it is."""
        if self.kind == "string":
            return self.text[self.text.index("'") + 1 : -1].replace("''", "'")
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"')
        if self.kind == "dollar":
            width = self.text.index("$", 1) + 1
            return self.text[width:-width]
        return self.text

    @property
    def unescaped(self) -> str:
        """The value of a string, with its backslash escapes decoded."""
        return unescape(self.value) if self.kind == "string" else self.value


_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescape(text: str) -> str:
    """Return the text with its backslash escapes decoded."""
    return _ESCAPE.sub(_meant, text)


def _meant(escape: re.Match[str]) -> str:
    octal, hexadecimal, letter = escape.groups()
    if octal or hexadecimal:
        return chr(int(octal, 8) if octal else int(hexadecimal, 16))
    return _LETTERS.get(letter, letter)


def tokens(sql: str) -> list[Token]:
    """Return all tokens, with spaces and comments. A quote that is never closed is an operator of one character."""
    found: list[Token] = []
    position = 0
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        assert match, "the last alternative takes any character"
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            end = _comment_end(sql, position)
        found.append(Token(_KINDS[kind or ""], sql[position:end]))
        position = end
    return found


def _comment_end(sql: str, start: int) -> int:
    """Return the end of a comment, which may contain other comments, as in PostgreSQL."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(sql)


def significant(found: Iterable[Token]) -> list[Token]:
    """Return the tokens without spaces and comments."""
    return [token for token in found if token.kind not in ("space", "comment")]


def sql_of(found: Iterable[Token]) -> str:
    """Return the SQL of tokens."""
    return "".join(token.text for token in found)


def closing(found: list[Token], opening: int) -> int | None:
    """Return the index of the parenthesis that closes the one at `opening`, or None."""
    depth = 0
    for index in range(opening, len(found)):
        depth += (found[index].text == "(") - (found[index].text == ")")
        if depth == 0:
            return index
    return None


def split_commas(found: Iterable[Token]) -> list[list[Token]]:
    """Return the parts between the commas outside of parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in found:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def literal(text: str) -> str:
    """Return a string literal that PostgreSQL reads as this text, whatever backslashes mean there."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


def quoted(name: str) -> str:
    """Return a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


# Reader of a statement, token by token. Pure.


def spelled(found: Sequence[Token]) -> str:
    """Return tokens as SQL, separated by spaces."""
    return " ".join(token.text for token in found)


class Reader:
    """A position in the tokens of a statement, without spaces and comments. What does not come next is an error."""

    def __init__(self, found: Sequence[Token]) -> None:
        self._found = list(found)
        self._at = 0

    @property
    def remaining(self) -> list[Token]:
        """The remaining tokens, which are not consumed."""
        return self._found[self._at :]

    @property
    def is_done(self) -> bool:
        """Whether no token is left."""
        return self._at >= len(self._found)

    def low(self, ahead: int = 0) -> str:
        """Return a word in lower case, or another token as written, `ahead` tokens ahead; empty at the end."""
        at = self._at + ahead
        return self._found[at].low if at < len(self._found) else ""

    def next(self) -> Token:
        """Return the next token and step over it."""
        if self.is_done:
            raise syntax_error("")
        self._at += 1
        return self._found[self._at - 1]

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next, and return whether they did."""
        if any(self.low(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Step over these words."""
        for word in words:
            if not self.accept(word):
                raise self.unexpected()

    def unexpected(self) -> RedshiftError:
        """Return the parser's error at the next token."""
        return syntax_error("" if self.is_done else self._found[self._at].text)

    def parenthesised(self) -> list[Token]:
        """Return the tokens between the next parenthesis and the one that closes it."""
        if self.low() != "(":
            raise self.unexpected()
        end = closing(self._found, self._at)
        if end is None:
            raise syntax_error("")
        inner = self._found[self._at + 1 : end]
        self._at = end + 1
        return inner

    def name(self) -> str:
        """Return a name as SQL, with its schema if it has one."""
        parts = [self._part()]
        while self.accept("."):
            parts.append(self._part())
        return ".".join(parts)

    def _part(self) -> str:
        if self.is_done or self._found[self._at].kind not in ("word", "name"):
            raise self.unexpected()
        return self.next().text

    def rest(self) -> list[Token]:
        """Return all remaining tokens and step over them."""
        left = self._found[self._at :]
        self._at = len(self._found)
        return left

    def done(self) -> None:
        """Check that no token is left."""
        if not self.is_done:
            raise self.unexpected()
