"""Objects that are encrypted by OpenPGP: keys, passphrases, and messages that are not whole."""

from __future__ import annotations

import gzip
import io
import resource
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import parquet
from pysequoia import SignatureMode, Tsk, encrypt, sign

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.read_options import Decryption, ReadOptions, ReadProgress

CSV = b"id,name\n1,a\n2,b\n"
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
KEY, OTHER = Tsk.generate(user_id="A <a@example.com>"), Tsk.generate(user_id="B <b@example.com>")
GIVEN = Decryption(key=str(KEY))


def encrypted(data: bytes, *, armor: bool = False, key: Tsk = KEY) -> bytes:
    return encrypt(data, recipients=[key.extract_certificate()], armor=armor)


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.csv", data)
    return out.getvalue()


def as_parquet(_: bytes) -> bytes:
    return parquet(pa.Table.from_pylist(ROWS))


@pytest.mark.parametrize("armor", [True, False])
@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.csv.gpg", bytes),
        ("a.csv.PGP", bytes),
        ("a.csv.gz.gpg", gzip.compress),
        ("a.csv.zip.pgp", zipped),
        ("a.parquet.gpg", as_parquet),
    ],
)
def test_formats_and_compressions(name: str, pack: Callable[[bytes], bytes], armor: bool, objects: Any) -> None:
    assert detect_format(name) == name.split(".")[1]
    data = encrypted(pack(CSV), armor=armor)
    assert objects.read(data, name, decryption=GIVEN).to_pylist() == ROWS


def test_names_of_another_kind(objects: Any) -> None:
    found = objects.read(encrypted(CSV, armor=True), "a.csv.asc", compression="openpgp", decryption=GIVEN)
    assert found.to_pylist() == ROWS
    twice = encrypted(encrypted(CSV))
    assert objects.read(twice, "a.csv.gpg.gpg", decryption=GIVEN, compression="none").to_pylist() == ROWS


def test_keys_in_a_file_and_passphrases_of_objects(objects: Any, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(bytes(OTHER) + bytes(KEY))
    given = Decryption(key_file=str(path))
    for key in (KEY, OTHER):
        assert objects.read(encrypted(CSV, key=key), "a.csv.gpg", decryption=given).to_pylist() == ROWS
    data = encrypt(CSV, passwords=["secret"], armor=False)
    assert objects.read(data, "a.csv.gpg", decryption=Decryption(passphrase="secret")).to_pylist() == ROWS


LARGE = b"id\n" + b"1234567\n" * 5_000_000
UNREADABLE = {
    "truncated": (encrypted(CSV)[:-1], "truncated, altered or not to be decrypted"),
    "armor": (encrypted(CSV, armor=True)[:-60], "truncated, altered or not to be decrypted"),
    "head": (encrypted(CSV)[:20], "truncated, altered or not to be decrypted"),
    "appended": (encrypted(CSV) + b"more", "truncated, altered or not to be decrypted"),
    "other key": (encrypted(CSV, key=OTHER), "encrypted for other keys than those of the setting decryption"),
    "plain": (CSV, "no encrypted message of OpenPGP"),
    "signed": (sign(KEY.signer(), CSV, mode=SignatureMode.INLINE, armor=False), "no encrypted message of OpenPGP"),
}


@pytest.mark.parametrize(("data", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_messages_that_are_not_read(data: bytes, reason: str, objects: Any) -> None:
    with pytest.raises(DataError, match=rf"a\.csv\.gpg: it is {reason}"):
        objects.read(data, "a.csv.gpg", decryption=GIVEN)


@pytest.mark.parametrize("at", [0.3, 0.999])
def test_no_row_of_a_large_object_that_was_altered(at: float, objects: Any) -> None:
    data = bytearray(encrypted(LARGE))
    data[int(len(data) * at)] ^= 1
    schema, progress = pa.schema([("id", pa.int64())]), ReadProgress()
    batches = FORMATS["csv"].read(
        objects.reader(bytes(data), "a.csv.gpg"), schema, ReadOptions(decryption=GIVEN), progress
    )
    with pytest.raises(DataError, match="truncated, altered"):
        next(batches)


def test_no_room_on_disk_is_not_an_altered_object(objects: Any) -> None:
    """The disk has room for the copy, and then none for what is decrypted."""
    reader, before = objects.reader(encrypted(LARGE), "a.csv.gpg"), resource.getrlimit(resource.RLIMIT_FSIZE)
    whole = b"".join(map(bytes, reader.chunks()))

    def chunks() -> Iterator[bytes]:
        yield whole
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))

    reader.chunks = chunks
    try:
        with pytest.raises(
            ConfigError, match=r"a\.csv\.gpg cannot be copied to .*: File too large; make room, or set TMP"
        ):
            FORMATS["csv"].infer(reader, ReadOptions(decryption=GIVEN), sample_bytes=1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_settings_that_cannot_be_used(objects: Any, tmp_path: Path) -> None:
    cases = {
        r"a\.csv\.gpg is encrypted; set decryption\.key_file": None,
        "'decryption.key_file': /none/key: No such file": Decryption(key_file="/none/key"),
        r"no key that decrypts \(it is no secret key\)": Decryption(key="no key"),
        r"no key that decrypts \(.*\): it may have expired": Decryption(
            key=str(Tsk.generate(user_id="E <e@example.com>", validity_seconds=1).extract_certificate())
        ),
    }
    for message, given in cases.items():
        with pytest.raises(ConfigError, match=message):
            objects.read(encrypted(CSV), "a.csv.gpg", decryption=given)
    assert str(KEY) not in repr(ReadOptions(decryption=Decryption(key=str(KEY), passphrase="hidden")))
    assert "hidden" not in repr(ReadOptions(decryption=Decryption(passphrase="hidden")))


@pytest.fixture
def gpg(tmp_path: Path) -> Iterator[Callable[..., bytes]]:
    """Return a function that runs GnuPG, in a folder of its own, on the file `plain`."""
    if shutil.which("gpg") is None:
        pytest.skip("needs GnuPG")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (tmp_path / "plain").write_bytes(CSV)

    def run(*arguments: str, given: bytes = b"") -> bytes:
        options = ["--batch", "--quiet", "--pinentry-mode=loopback", "--passphrase=secret", "--trust-model=always"]
        command = ["gpg", f"--homedir={home}", *options, *arguments]
        return subprocess.run(command, capture_output=True, check=True, input=given).stdout

    yield run
    subprocess.run(["gpgconf", f"--homedir={home}", "--kill", "all"], check=False, capture_output=True)


@pytest.mark.full
@pytest.mark.parametrize("usage", ["", "Key-Usage: cert,sign,encrypt\nSubkey-Usage: encrypt\n"], ids=["SCEA", "SCE"])
def test_a_primary_key_that_encrypts_too_hides_no_subkey(
    objects: Any, tmp_path: Path, gpg: Callable[..., bytes], usage: str
) -> None:
    """Without Key-Usage, GnuPG makes such keys; it encrypts for the subkey."""
    of_primary, _, of_subkey = usage.partition("Subkey")
    text = f"%no-protection\nKey-Type: RSA\nKey-Length: 2048\n{of_primary}Subkey-Type: RSA\nSubkey-Length: 2048\n"
    text += f"{of_subkey and 'Subkey'}{of_subkey}Name-Email: k@example.com\nExpire-Date: 0\n%commit\n"
    gpg("--gen-key", given=text.encode())
    data = gpg("-r", "k@example.com", "-o", "-", "-e", str(tmp_path / "plain"))
    given = Decryption(key=gpg("--armor", "--export-secret-keys").decode())
    assert objects.read(data, "a.csv.gpg", decryption=given).to_pylist() == ROWS


@pytest.mark.full
def test_an_algorithm_that_is_missing_is_named(objects: Any, tmp_path: Path, gpg: Callable[..., bytes]) -> None:
    cases = {
        "--s2k-cipher-algo=CAST5": "is encrypted by CAST5, which is refused as insecure. Encrypt it by AES256",
        "--s2k-cipher-algo=3DES": "is encrypted by 3DES, which is refused",
        "--s2k-cipher-algo=BLOWFISH": "or by an algorithm that pysequoia lacks, such as Blowfish",
        "--compress-algo=bzip2": r"such as data compressed by bzip2. Encrypt it with zlib \(gpg --compress-algo zlib\)",
    }
    for option, reason in cases.items():
        data = gpg(option, "-o", "-", "-c", str(tmp_path / "plain"))
        with pytest.raises(DataError, match=rf"a\.csv\.gpg: it .*{reason}"):
            objects.read(data, "a.csv.gpg", decryption=Decryption(passphrase="secret"))


@pytest.mark.full
def test_objects_and_keys_of_gnupg(objects: Any, tmp_path: Path, gpg: Callable[..., bytes]) -> None:
    """A key with a passphrase, which gets a second subkey; both decrypt what was encrypted in their time."""
    gpg("--quick-gen-key", "c@example.com", "default", "default", "1y")
    data = [gpg("-r", "c@example.com", "-o", "-", "-e", str(tmp_path / "plain"))]
    listed = gpg("--list-keys", "--with-colons").decode().splitlines()
    fingerprint = next(line for line in listed if line.startswith("fpr")).split(":")[9]
    gpg("--quick-add-key", fingerprint, "cv25519", "encr", "1y")
    data.append(gpg("-r", "c@example.com", "-a", "-o", "-", "-e", str(tmp_path / "plain")))
    data.append(gpg("-o", "-", "-c", str(tmp_path / "plain")))
    key = gpg("--armor", "--export-secret-keys").decode()
    for made in data:
        assert objects.read(made, "a.csv.gpg", decryption=Decryption(key=key, passphrase="secret")).to_pylist() == ROWS
    for passphrase in (None, "wrong"):
        with pytest.raises(ConfigError, match=r"no key that decrypts \(.*\): it may have expired, or lack its passph"):
            objects.read(data[0], "a.csv.gpg", decryption=Decryption(key=key, passphrase=passphrase))
