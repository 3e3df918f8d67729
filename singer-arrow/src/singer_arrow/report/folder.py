"""Reports in a folder: on local disk, or in an object store."""

from __future__ import annotations

import json
from collections.abc import Iterator

from singer_arrow.errors import NotFoundError
from singer_arrow.report.document import Report
from singer_arrow.report.page import run_page
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url

INDEX = "index.html"
_SUFFIX = ".report.json"


class ReportFolder:
    """The folder that the setting `report` names."""

    def __init__(self, storage: Storage, url: Url) -> None:
        self._storage, self._url = storage, url

    def write(self, name: str, report: Report, *, page: bool) -> None:
        """Write a report, and its page too, in place of earlier ones; `name` is that of its files, without suffix."""
        text = json.dumps(report, indent=1, ensure_ascii=False, default=str)
        self._storage.put(self._url.join(name + _SUFFIX), text.encode())
        if page:
            self.write_page(f"{name}.html", run_page(report))

    def write_page(self, name: str, text: str) -> Url:
        """Write a page, and return its URL."""
        url = self._url.join(name)
        self._storage.put(url, text.encode())
        return url

    def names(self) -> list[str]:
        """Return the names of all reports, those of earlier runs first; NotFoundError if the folder does not exist."""
        listed = self._storage.list(Url(self._url.scheme, self._url.bucket, f"{self._url.key.rstrip('/')}/"))
        depth = self._url.join("x").key.count("/")
        keys = (o.url for o in listed if o.url.key.count("/") == depth)
        return sorted(url.name.removesuffix(_SUFFIX) for url in keys if url.name.endswith(_SUFFIX))

    def read(self, name: str) -> Report | None:
        """Return a report; None if it is damaged, or of another version."""
        try:
            report: Report = json.loads(bytes(self._storage.get(self._url.join(name + _SUFFIX)).data))
        except ValueError:
            return None
        return report if isinstance(report, dict) and report.get("version") == 1 else None

    def reports(self, most: int) -> Iterator[tuple[str, Report]]:
        """Yield the newest reports with their names, those of earlier runs first."""
        for name in self.names()[-most:]:
            if (report := self.read(name)) is not None:
                yield name, report

    def previous(self, connector: str, name: str) -> Report | None:
        """Return the newest report of a connector that is older than the one of a name; None if there is none."""
        try:
            names = [n for n in self.names() if f"Z-{connector}-" in n and n < name]
        except NotFoundError:
            return None
        return self.read(names[-1]) if names else None
