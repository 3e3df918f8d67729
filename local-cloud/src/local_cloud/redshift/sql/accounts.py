"""Users, groups and roles as roles of PostgreSQL; a prefix lets all three share a name, as in Redshift. Pure."""

from dataclasses import replace

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.expressions import rewritten
from local_cloud.redshift.sql.statement import Plain
from local_cloud.redshift.sql.tokens import Reader, Token, quoted, significant, spelled


def _prefixed(token: Token, kind: str) -> str:
    name = token.value if token.kind == "name" else token.value.lower()
    return quoted(f"{kind}:{name}")


def grant(text: str, found: list[Token]) -> Plain:
    """Translate GRANT, REVOKE and ALTER DEFAULT PRIVILEGES: `GROUP x` and `ROLE x` become roles with a prefix."""
    kept, kind = list[Token](), ""
    for token in found:
        if kind and token.kind in ("word", "name"):
            kept.append(replace(token, kind="name", text=_prefixed(token, kind)))
            kind = ""
        elif token.kind == "word" and token.low in ("group", "role"):
            kind = token.low
        else:
            kept.append(token)
    return Plain(text, rewritten(kept))


def group(text: str, found: list[Token]) -> Plain:
    """Translate CREATE, ALTER and DROP GROUP."""
    reader = Reader(significant(found))
    verb = reader.next().text
    reader.expect("group")
    name = _prefixed(reader.next(), "group")
    if reader.accept("rename", "to"):
        return Plain(text, f"ALTER ROLE {name} RENAME TO {_prefixed(reader.next(), 'group')}")
    return Plain(text, f"{verb} GROUP {name} {spelled(reader.rest())}")


def role(text: str, found: list[Token]) -> Plain:
    """Translate CREATE and DROP ROLE."""
    reader = Reader(significant(found))
    verb = reader.next().low
    reader.expect("role")
    if verb not in ("create", "drop"):
        raise RedshiftError("the local Redshift cannot do this: ALTER ROLE", "0A000")
    name = _prefixed(reader.next(), "role")
    reader.accept("force") or reader.accept("restrict")
    if reader.accept("externalid"):
        reader.next()
    reader.done()
    return Plain(text, f"{verb} ROLE {name}")


def user(text: str, found: list[Token]) -> Plain:
    """Translate CREATE and ALTER USER, without the options that have no effect here."""
    reader = Reader(significant(found))
    verb = reader.next().text
    reader.expect("user")
    name, parts = reader.name(), list[str]()
    reader.accept("with")
    while not reader.is_done:
        if reader.accept("password"):
            given = reader.next()
            if given.kind != "string" and given.low != "disable":
                raise syntax_error(given.text)
            parts.append("PASSWORD NULL" if given.low == "disable" else f"PASSWORD {_checked(given)}")
        elif reader.accept("createuser"):
            parts.append("SUPERUSER")
        elif reader.accept("nocreateuser"):
            parts.append("NOSUPERUSER")
        elif reader.accept("syslog", "access") or reader.accept("session", "timeout") or reader.accept("externalid"):
            reader.next()
        elif reader.accept("in", "group"):
            parts.append(f"IN ROLE {_prefixed(reader.next(), 'group')}")
        else:
            parts.append(reader.next().text)
    return Plain(text, f"{verb} USER {name} {' '.join(parts)}")


def _checked(password: Token) -> str:
    """Return a password as written, after checking it by Redshift's rules."""
    value = password.value
    if value.startswith("md5") and len(value) == 35:
        return password.text
    if not 8 <= len(value) <= 64:
        raise RedshiftError("Password must be between 8 and 64 characters long", "22023")
    if not (any(c.isupper() for c in value) and any(c.islower() for c in value) and any(c.isdigit() for c in value)):
        words = "Password must contain at least one uppercase letter, one lowercase letter and one number"
        raise RedshiftError(words, "22023")
    return password.text
