"""What a stream that is a table reads in one run: the files that were added since the version it has read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from singer_arrow.errors import IdentityError
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.lake.table import ANEW, NO_VALUES, LakeTable, TableFile, TableVersion
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_model import Segment, Task, make_segments, make_tasks
from tap_s3_files.settings import Bookmark, Watermark, latest


class TablePlan(StreamPlan):
    """The plan of a stream that is a table.

    All segments of a range of versions have the key of its last one; the watermark passes that with the last of them.
    So a run that ends while a range is planned leaves the rest of it to the next one, whatever the table is then.
    """

    def __init__(self, table: LakeTable, *args: Any, keys: Sequence[str], **more: Any) -> None:
        """Find the files to be read, before anything is sent; an error: rows were removed, or it is another table."""
        super().__init__(*args, **more)
        self._table = table
        since = self._version_at(self._before)
        self._version_at(self.bookmark.watermark)
        begun, planned, segment = None, set[Url | ObjectInfo](), self.newest
        if segment is not None:
            begun = self._checked(TableVersion.of(segment.table_version, table.version.at), segment.table_version)
        while segment is not None and begun is not None and _is_partial(segment) and segment.table_version == begun.key:
            planned.update(segment.objects if since is not None else (o.url for o in segment.objects))
            before = segment.number - 1
            segment = self.log.read(before) if self.log is not None and before >= self.log.first_number else None
        # The rest of a range that was begun, then what is new
        self._ranges: list[tuple[TableVersion, Iterable[TableFile]]] = []
        if begun is not None and planned and self.shard is None:
            files = table.files(since, begun, keys)
            left = (f for f in files if planned.isdisjoint((f.info, f.info.url)))
            self._ranges.append((begun, left))
            since = begun
        if self.shard is None and (since is None or since.key != table.version.key):
            self._ranges.append((table.version, table.files(since, table.version, keys)))
        self._files: dict[ObjectInfo, TableFile] = {}  # with more than an object has, and of no task yet
        self._newest_file = table.version.at

    def _version_at(self, mark: Watermark | None) -> TableVersion | None:
        """Return the version of a watermark; IdentityError: it is none of this table."""
        return self._checked(TableVersion.of(mark.key, mark.last_modified), mark.key) if mark is not None else None

    def _checked(self, version: TableVersion | None, key: str) -> TableVersion:
        own, stream, url = self._table.version, self.object_filter.stream, self._table.url
        if version is None:
            problem = f"its STATE or plan log is of objects, as {key!r} is, and {url} is a table"
        elif (version.kind, version.table) != (own.kind, own.table):
            problem = f"{url} is another table than the one that was read: it was made anew, or the path was changed"
        elif version.number > own.number:
            problem = f"{version} of {url} was read, and its newest one is {own}"
        else:
            return version
        raise IdentityError(f"Stream {stream!r}: {problem}; nothing was sent: {ANEW}")

    def selects(self, segment: Segment, task: Task) -> bool | None:  # noqa: ARG002
        """Return that each task of the log is sent."""
        return True

    def end(self, at: Bookmark) -> Bookmark:
        """Return the bookmark behind versions that add nothing too, so that their log may be cleaned up."""
        if self.shard is not None or (self.log is not None and self.log.is_new):
            return at
        return replace(at, watermark=self._mark(self._table.version, at.watermark))

    def _mark(self, version: TableVersion, before: Watermark | None) -> Watermark | None:
        """Return the watermark of a version, whose time is behind those of files and versions up to it."""
        times = [version.at, self._newest_file]
        if before is not None and before.key != version.key:
            times.append(before.last_modified + timedelta(microseconds=1))
        return latest(before, Watermark(max(times), version.key))

    def new_segments(self) -> Iterator[Segment]:
        """Yield new segments for the files that were added, each once it is in the log."""
        self.complete_until = self._table.opened
        for version, files in self._ranges:
            made = make_tasks(self._infos(files), target_bytes=self._target_bytes, ranges_of=self._ranges_in)
            groups = make_segments(map(self._of_table, made))
            tasks = next(groups, None)
            while tasks is not None:
                following = next(groups, None)
                segment = Segment(
                    number=self._next,
                    stream=self.object_filter.stream,
                    target_bytes=self._target_bytes,
                    before=self._before,
                    after=self._mark(version, self._before) if following is None else self._before,
                    tasks=tasks,
                    settings=self._settings or "",
                    paths=str(self._own),
                    table_version=version.key,
                    as_records=self.as_records,
                )
                if self.log is not None:
                    segment = self.log.append(segment)
                self._next, self._before = segment.number + 1, segment.after
                yield segment
                tasks = following

    def _infos(self, files: Iterable[TableFile]) -> Iterator[ObjectInfo]:
        for file in files:
            if file.values or file.deletes:
                self._files[file.info] = file
            self._newest_file = max(self._newest_file, file.info.modified)
            yield file.info

    def _ranges_in(self, info: ObjectInfo) -> int:
        file = self._files.get(info)
        return 1 if file is not None and file.deletes else self._ranges_of(info)

    def _of_table(self, task: Task) -> Task:
        """Return a task with what the table has about its files."""
        files = [self._files.get(o) or TableFile(o, NO_VALUES) for o in task.objects]
        for info in task.ended_objects:
            self._files.pop(info, None)
        return with_table_parts(task, files)


def with_table_parts(task: Task, files: Sequence[TableFile]) -> Task:
    """Return a task with what a table has about the files that are its objects: partition columns, deleted rows."""
    values, deletes = tuple(f.values for f in files), tuple(f.deletes for f in files)
    return replace(task, values=values if any(values) else (), deletes=deletes if any(deletes) else ())


def _is_partial(segment: Segment) -> bool:
    """Return whether further segments are of the same range of versions."""
    return segment.after is None or segment.after.key != segment.table_version
