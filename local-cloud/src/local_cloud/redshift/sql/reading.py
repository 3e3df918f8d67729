"""Reading a statement word by word (pure)."""

from collections.abc import Sequence

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.tokens import Token, closing


def spelled(found: Sequence[Token]) -> str:
    """Tokens as SQL, a space between each two."""
    return " ".join(token.text for token in found)


class Reader:
    """A position in the tokens of a statement, none of them a space or a comment."""

    def __init__(self, found: Sequence[Token]) -> None:
        self._found = list(found)
        self._at = 0

    @property
    def remaining(self) -> list[Token]:
        """What is left, without stepping over it."""
        return self._found[self._at :]

    @property
    def is_done(self) -> bool:
        """Nothing is left."""
        return self._at >= len(self._found)

    def low(self, ahead: int = 0) -> str:
        """A word in lower case, anything else as written, so many tokens ahead; empty at the end."""
        at = self._at + ahead
        return self._found[at].low if at < len(self._found) else ""

    def next(self) -> Token:
        """The next token.

        Raises:
            RedshiftError: there is none.
        """
        if self.is_done:
            raise syntax_error("")
        self._at += 1
        return self._found[self._at - 1]

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if any(self.low(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Step over these words.

        Raises:
            RedshiftError: something else comes next.
        """
        for word in words:
            if not self.accept(word):
                raise self.unexpected()

    def unexpected(self) -> RedshiftError:
        """What the parser says of the next token."""
        return syntax_error("" if self.is_done else self._found[self._at].text)

    def parenthesised(self) -> list[Token]:
        """What is between the parenthesis that comes next and the one that closes it.

        Raises:
            RedshiftError: there is none, or it is not closed.
        """
        if self.low() != "(":
            raise self.unexpected()
        end = closing(self._found, self._at)
        if end is None:
            raise syntax_error("")
        inner = self._found[self._at + 1 : end]
        self._at = end + 1
        return inner

    def name(self) -> str:
        """A name with its schema, if it has one, as SQL.

        Raises:
            RedshiftError: something else comes next.
        """
        parts = [self._part()]
        while self.accept("."):
            parts.append(self._part())
        return ".".join(parts)

    def _part(self) -> str:
        if self.is_done or self._found[self._at].kind not in ("word", "name"):
            raise self.unexpected()
        return self.next().text

    def rest(self) -> list[Token]:
        """All that is left."""
        left = self._found[self._at :]
        self._at = len(self._found)
        return left

    def done(self) -> None:
        """Make sure that nothing is left.

        Raises:
            RedshiftError: something is.
        """
        if not self.is_done:
            raise self.unexpected()
