"""OpenPGP: an object decrypted to local disk, and found whole and unaltered, before any of it is read."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from singer_arrow.errors import ConfigError, DataError, os_error_in
from singer_arrow.read_options import Decryption
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.runtime.process import no_room, temporary_folder
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

_REFUSED = re.compile(r"Policy rejected symmetric encryption algorithm\s+Caused by:\s+(\S+) is not considered secure")
_ENCRYPTED = (1, 3, 18, 20)  # tags of the first packets of messages that are encrypted, and protected against changes


@contextmanager
def decrypted(reader: ObjectReader, given: Decryption) -> Iterator[ObjectReader]:
    """Yield a reader of what an encrypted object holds."""
    try:
        from pysequoia import decrypt_file
    except ImportError:
        msg = "needs the library pysequoia to be decrypted: install singer-arrow-tap-s3-files[pgp]"
        raise ConfigError(f"{reader.url} {msg}") from None
    try:
        key = (given.key or "").encode() or (Path(given.key_file).expanduser().read_bytes() if given.key_file else b"")
    except OSError as error:
        raise ConfigError(f"Setting 'decryption.key_file': {given.key_file}: {error.strerror}") from None
    if not (key or given.passphrase):
        raise ConfigError(f"{reader.url} is encrypted; set decryption.key_file to the file of its secret key")
    decryptors = _decryptors(key, given.passphrase) if key else [None]
    passwords = [given.passphrase] if given.passphrase else []
    with temporary_folder("openpgp-") as folder:
        packed, plain = folder / "packed", folder / "plain"
        try:
            with packed.open("wb") as file:
                file.writelines(reader.chunks())
        except OSError as error:
            raise no_room(reader.url, folder, error) from None
        reason, hint = "it is encrypted for other keys than those of the setting decryption", "Set its secret key"
        if not key:
            reason = "it is encrypted by another passphrase, or by an algorithm that pysequoia lacks, such as Blowfish"
            hint = "Set its passphrase in decryption, or encrypt it by AES256"
        if _first_tag(packed) not in _ENCRYPTED:
            reason, hint = "it is no encrypted message of OpenPGP", "Encrypt it, or change its name or its compression"
            decryptors = []
        for decryptor in decryptors:
            try:
                decrypt_file(packed, plain, decryptor=decryptor, passwords=passwords)
            except (RuntimeError, OSError) as error:  # raised before any of it is read
                if (of_system := os_error_in(error)) is not None:
                    raise no_room(reader.url, folder, of_system) from None
                if str(error).startswith("No key to decrypt message"):
                    continue
                reason, hint = _described(str(error))
                break
            packed.unlink()
            name = re.sub(r"(?i)\.(gpg|pgp|asc)$", "", reader.url.name)
            url = Url(reader.url.scheme, reader.url.bucket, f"{reader.url.key}!/{name}")
            yield ObjectReader(Storage(), url, budget=reader.budget, place=Url.parse(str(plain)))
            return
        raise DataError(reason, url=reader.url, hint=hint)


def _described(error: str) -> tuple[str, str]:
    """Return the reason why a message could not be decrypted by a key that fits, and what to do."""
    line = error.partition("\n")[0]
    if refused := _REFUSED.match(error):
        return f"it is encrypted by {refused[1]}, which is refused as insecure", "Encrypt it by AES256"
    if line.endswith("Malformed OpenPGP message"):  # errors of changed messages differ
        reason = "it holds what the library pysequoia cannot read, such as data compressed by bzip2"
        return reason, "Encrypt it with zlib (gpg --compress-algo zlib)"
    return f"it is truncated, altered or not to be decrypted ({line})", "Upload it again"


def _first_tag(path: Path) -> int:
    """Return the tag of the first packet of a message, armored or not; 0 for other files."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    if head.startswith(b"-----BEGIN PGP MESSAGE"):
        head = base64.b64decode(head.replace(b"\r", b"").partition(b"\n\n")[2][:4])
    first = head[0] if head else 0
    return 0 if first < 0x80 else first & 0x3F if first & 0x40 else first >> 2 & 0xF


@lru_cache(maxsize=16)
def _decryptors(key: bytes, passphrase: str | None) -> Sequence[Any]:
    """Return a decryptor for each secret key and subkey: pysequoia takes the first one of a certificate only.

    So each subkey is given with the public part of its primary key, which may encrypt too.
    """
    from pysequoia import Cert, Tsk
    from pysequoia.packet import PacketPile, Tag

    found, primary, reason = list[Any](), list[Any](), "it is no secret key"
    try:
        packets = list(PacketPile.from_bytes(key))
    except RuntimeError:
        packets = []
    primaries = (Tag.SecretKey, Tag.PublicKey)
    starts = [i for i, p in enumerate(packets) if p.tag in (*primaries, Tag.SecretSubkey, Tag.PublicSubkey)]
    for begin, end in pairwise([*starts, len(packets)]):
        subkey = packets[begin:end]
        if packets[begin].tag in primaries:
            tried_key, primary = subkey, list[Any]()
            try:
                primary = list(PacketPile.from_bytes(bytes(Cert.from_packets(subkey))))
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
        else:
            tried_key = primary + subkey
        for tried in dict.fromkeys((None, passphrase)):  # pysequoia refuses one for keys without
            try:
                found.append(Tsk.from_packets(tried_key).decryptor(tried))
                break
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
    if not found:
        msg = f"Setting 'decryption' has no key that decrypts ({reason}): it may have expired, or lack its passphrase"
        raise ConfigError(msg)
    return found
