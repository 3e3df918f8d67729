"""Where the files of a BATCH message may be: a manifest can name any URL, so its writer need not be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage.urls import CONTROL, Url, shown

_OBJECT_STORAGE = ("s3", "gs", "az")
_SEPARATOR = re.compile(r"[/\\]")
_MOST_DECODED = 5
"""A key that is still percent-encoded after so many decodings hides something."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Places below which all files of manifests must be.

    Without any, files may be on object storage, where what the target's credentials allow is the limit, and in the
    local folders of `own`. Nothing else: any file of this machine, or any server that it reaches, could be loaded
    otherwise by the writer of the messages.

    A root is a bucket or a folder, never a beginning of a name: `s3://bucket/ab` holds `s3://bucket/ab/1.parquet`, and
    not `s3://bucket/abc`. Scheme, bucket and key must be equal letter by letter (`s3a` is `s3`). Of local files the
    place counts to which symbolic links lead. Keys with a `.` or `..` between slashes, also percent-encoded or with
    control characters in between, are in no root, because programs differ in what they make of them.
    """

    roots: tuple[Url, ...] = ()
    own: tuple[Url, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str], own: str | None = None) -> Roots:
        """Read the setting `manifest_roots`; a root must be a URL without `.` or `..` between slashes.

        `own` is the target's `batch_config.storage.root`; a folder of local files if it is local.
        """
        roots = []
        for text in texts:
            try:
                url = Url.parse(text)
                roots.append(_real(url) if url.scheme == "file" else url)
            except (ConfigError, OSError, ValueError, RuntimeError):
                url = None
            if url is None or (url.scheme != "file" and _climbs(url.key)):
                msg = f"Setting 'manifest_roots' has {shown(text)!r}; a root reads s3://bucket/folder or /local/folder"
                raise ConfigError(msg)
        try:
            folder = Url.parse(own or "")
            local = (_real(folder),) if folder.scheme == "file" else ()
        except (ConfigError, OSError, ValueError, RuntimeError):
            local = ()
        return cls(tuple(roots), local)

    def check(self, stream: str, manifest: Iterable[str]) -> None:
        """Refuse a manifest with a file elsewhere: the DataError names it without what may be secret in its URL."""
        for text in manifest:
            if not self.roots:
                self._check_default(stream, text)
            elif not self._holds(text):
                places = ", ".join(shown(str(root)) for root in self.roots)
                msg = f"{shown(text)!r} in the manifest of stream {stream!r} is outside of manifest_roots ({places})"
                raise DataError(msg, hint="Add its folder there if the tap may write to it")

    def _check_default(self, stream: str, text: str) -> None:
        """Refuse what is neither on object storage nor in a local folder that the target's own settings name."""
        which = f"{shown(text)!r} in the manifest of stream {stream!r}"
        try:
            url = Url.parse(text)
            if url.scheme in _OBJECT_STORAGE:
                return
            real = _real(url) if url.scheme == "file" else None
        except (ConfigError, OSError, ValueError, RuntimeError):  # no URL; a NUL in it; links in a circle
            raise DataError(f"{which} names no place", hint="Correct it in the tap") from None
        if real is None:
            place = shown(f"{url.scheme}://{url.bucket}")
            reason = f"{which} is not on object storage (s3, gs, az)"
            raise DataError(reason, hint=f"If the tap may write there, set manifest_roots, with {place!r} in it")
        if not any(_is_below(real, root) for root in self.own):
            folder = shown(str(real.local_path().parent))
            places = ", ".join(shown(str(root)) for root in self.own) or "which is not set"
            reason = f"{which} is a local file outside of the target's own batch_config.storage.root ({places})"
            hint = f"If the tap may write there, set that to {folder!r}, or set manifest_roots, with {folder!r} in it"
            raise DataError(reason, hint=hint)

    def _holds(self, text: str) -> bool:
        try:
            url = Url.parse(text)
            if url.scheme == "file":
                url = _real(url)
            elif _climbs(url.key):
                return False
        except (ConfigError, OSError, ValueError, RuntimeError):  # no URL; a NUL in it; links in a circle
            return False
        return any(_is_below(url, root) for root in self.roots)


def _is_below(url: Url, root: Url) -> bool:
    if (url.scheme, url.bucket) != (root.scheme, root.bucket):
        return False
    folder = root.key.rstrip("/")
    return not folder or url.key == folder or url.key.startswith(f"{folder}/")


def _real(url: Url) -> Url:
    """Return the path of a local file with links and `..` resolved."""
    return Url("file", "", Path("/" + url.key).resolve().as_posix().lstrip("/"))


def _climbs(key: str) -> bool:
    """Return whether any reading of a key has a part that is no name."""
    for _ in range(_MOST_DECODED):
        key = CONTROL.sub("", key)
        if any(part in (".", "..") for part in _SEPARATOR.split(key)):
            return True
        if (decoded := unquote(key)) == key:
            return False
        key = decoded
    return True
