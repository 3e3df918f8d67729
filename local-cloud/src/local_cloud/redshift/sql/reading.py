"""Reader of a statement, token by token. Pure."""

from collections.abc import Sequence

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.tokens import Token, closing


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
