"""Settings of loads; roots of manifests; columns of variants."""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal, Self

from singer_arrow.errors import ConfigError, DataError, SchemaError, nearest
from singer_arrow.load.convert import UploadColumn
from singer_arrow.naming import NamingRules, digest, distinct_table_name, table_name
from singer_arrow.settings import json_schema, read_settings, setting, settings_in, without_defaults
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.places import OBJECT_STORAGE, is_within, place_of
from singer_arrow.storage.urls import Url, shown

logger = logging.getLogger("singer-arrow")

# Where the files of a BATCH message may be: a manifest can name any URL, so its writer need not be trusted.


@dataclass(frozen=True, slots=True)
class Roots:
    """Places below which all files of manifests must be.

    Without any, files may be on object storage, where what the target's credentials allow is the limit, and in the
    local folders of `own`. Nothing else: any file of this machine, or any server that it reaches, could be loaded
    otherwise by the writer of the messages.
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
            if (root := place_of(text)) is None:
                msg = f"Setting 'manifest_roots' has {shown(text)!r}; a root reads s3://bucket/folder or /local/folder"
                raise ConfigError(msg)
            roots.append(root)
        folder = place_of(own or "")
        return cls(tuple(roots), (folder,) if folder is not None and folder.scheme == "file" else ())

    def check(self, stream: str, manifest: Iterable[str]) -> None:
        """Refuse a manifest with a file elsewhere: the DataError names it without what may be secret in its URL."""
        for text in manifest:
            which = f"{shown(text)!r} in the manifest of stream {stream!r}"
            place = place_of(text, may_climb=not self.roots)
            if self.roots:
                if not is_within(place, self.roots):
                    places = ", ".join(shown(str(root)) for root in self.roots)
                    reason = f"{which} is outside of manifest_roots ({places})"
                    raise DataError(reason, hint="Add its folder there if the tap may write to it")
            elif place is None:
                raise DataError(f"{which} names no place", hint="Correct it in the tap")
            elif place.scheme not in ("file", *OBJECT_STORAGE):
                server = shown(f"{place.scheme}://{place.bucket}")
                reason = f"{which} is not on object storage (s3, gs, az)"
                raise DataError(reason, hint=f"If the tap may write there, set manifest_roots, with {server!r} in it")
            elif place.scheme == "file" and not is_within(place, self.own):
                folder = shown(str(place.local_path().parent))
                places = ", ".join(shown(str(root)) for root in self.own) or "which is not set"
                reason = f"{which} is a local file outside of the target's own batch_config.storage.root ({places})"
                hint = "If a bucket was meant, begin the tap's batch root with s3://"
                raise DataError(reason, hint=f"{hint}. Else add {folder!r} to manifest_roots")


# Variant columns: where the values of a property go that do not fit the type its column has. Pure.
#
# A property `price` whose column holds whole numbers and that brings text gets a second column `price__string`. Each
# value is in one of the two, and the other one is null in that row. A variant is known by its mark, not by its name,
# which a property of the stream may have too.

EVOLVE = "evolve"  # of the setting `on_drift`
MARK = "singer_variant: "


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """A column that a table has; each warehouse adds what its types need."""

    name: str
    kind: str  # the warehouse's type, without its size
    variant_of: str | None = field(default=None, kw_only=True)  # the column that it is marked as a variant of
    owner: str | None = field(default=None, kw_only=True)  # the `owner_key` of its property, if recorded


def type_conflict(name: str, existing: object, column: object) -> SchemaError:
    """Return the error for a column whose type does not fit the type of the table's column."""
    return SchemaError(
        f"Column {name!r} is of type {existing} in the table, and {column} in the stream's SCHEMA; "
        "rename or drop the table or the column, or set the column's type in the tap"
    )


def mark(column: str) -> str:
    """Return the description or comment of a variant column."""
    return f"{MARK}{column}"


def marked(text: str | None) -> str | None:
    """Return the column of which one with that description is a variant; None if it is none."""
    first = (text or "").partition("\n")[0].rstrip()
    return first.removeprefix(MARK) if first.startswith(MARK) else None


def variant_names(column: str, word: str, rules: NamingRules) -> Iterator[str]:
    """Yield the names that a column's variant may have, in the order in which they are tried; endless.

    The first is `column__word`, with a word that all warehouses share: `integer`, `decimal`, `float`, `string`, `json`,
    ...; the others, for when that is another property's or does not hold the values either, end in some digits.
    """
    name = f"{column}__{word}"
    for number in count():
        if number or len(name) > rules.column_length:
            yield f"{name[: rules.column_length - 9]}_{digest(f'{name} {number}')}"
        else:
            yield name


def unfilled(columns: Iterable[UploadColumn], existing: Iterable[ExistingColumn]) -> tuple[str, ...]:
    """Return the columns of a table that a stream does not fill, so that an upsert empties them in rows it replaces."""
    filled = {c.name for c in columns}
    return tuple(e.name for e in existing if e.name not in filled)


def base(column: UploadColumn | ExistingColumn) -> str:
    """Return the column that a property had first."""
    return column.variant_of or column.name


# Settings that targets have in common.

APPEND, UPSERT, OVERWRITE = "append-only", "upsert", "overwrite"
DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Settings of every target that loads in the background; those of a target are a subclass."""

    load_method: str | None = setting(
        "append-only adds rows; upsert replaces rows with the same key_properties; overwrite replaces the table's rows "
        "by those of the run, all at once at its end. By default what tap-s3-files names for the stream, else "
        "append-only.",
        kind=Literal["append-only", "upsert", "overwrite"],
        scope="run and stream",
    )
    max_parallel_loads: int = setting("Loads that run at the same time.", default=4, minimum=1)
    max_batch_age_seconds: float = setting(
        "BATCH messages of a stream are gathered into one load for at most this long.",
        default=60,
        parse=float,
        minimum=0,
    )
    max_batch_bytes: int = setting(
        "BATCH messages of a stream are gathered into one load until they are this large.",
        default=512,
        name="max_batch_mb",
        kind=float,
        parse=lambda megabytes: int(megabytes * (1 << 20)),
        minimum=0,
        exclusiveMinimum=0,
    )
    hard_delete: bool = setting(
        "ACTIVATE_VERSION deletes rows of older versions instead of setting _sdc_deleted_at, and upsert deletes the "
        "row of a key that arrives with a value in _sdc_deleted_at instead of keeping it.",
        default=False,
        scope="run and stream",
    )
    replay: Literal["skip", "load"] | None = setting(
        "What to do with a batch that was loaded before: skip, as by default, leaves it out and logs it, load loads it "
        "again. Set it to skip also where a run without STATE ends because the table was made anew and has the rows of "
        "all batches.",
        scope="run and stream",
    )
    ledger_keep_days: int | None = setting(
        "For how many days the ledger `_sdc_batches` keeps the entries of the run's streams; older ones are removed at "
        "the end of a run, except those that the next runs need. A batch without an entry is loaded again if it comes "
        "again. By default, all are kept.",
        minimum=2,
    )
    manifest_roots: Roots = setting(
        "Buckets and folders, such as `s3://bucket/folder` or `/local/folder`, that all files of BATCH messages must "
        "be in; others are refused, even if reached through `..` or links. Empty: anywhere on S3, Google Cloud Storage "
        "and Azure, and local files below the target's own batch_config.storage.root.",
        factory=Roots,
        kind=tuple[str, ...],
        parse=Roots.parse,
        items={"type": "string", "minLength": 1},
    )
    clean_up_batch_files: bool = setting(
        "Remove the files of BATCH messages once their rows are loaded and the STATE behind them is out. Requires "
        "manifest_roots, which limits where they may be; objects that the tap passes through are kept.",
        default=False,
    )
    on_drift: Literal["evolve", "fail"] = setting(
        "What to do if a property's values do not fit the table's column, and it cannot be widened: evolve puts them "
        "into a second column, `name__type`; fail ends the run before anything is loaded. Columns are added and "
        "widened in both cases. For a key it is always an error.",
        default=EVOLVE,
        scope="run and stream",
    )
    on_bad_row: Literal["fail", "dead_letter"] = setting(
        "What to do with a row that cannot be loaded because a value does not fit the SCHEMA, or because the warehouse "
        "refuses it: fail ends the run and names the row; dead_letter loads the other rows, puts this one with the "
        "reason into the table `_sdc_rejected`, and logs it.",
        default="fail",
        scope="run and stream",
    )
    max_bad_rows: int = setting(
        "With on_bad_row: dead_letter, how many rows may be bad per BATCH message (per file that RECORD messages are "
        "gathered in; with overwrite, per stream); one more ends the run.",
        default=1000,
        minimum=1,
        scope="run and stream",
    )
    table_prefix: str = setting("Prefix of each table's name.", default="")
    tables: Mapping[str, str] = setting(
        "Other tables or schemas for some streams: an object from streams (or patterns: `events_*`) to `table`, "
        "`schema.table` or, with `*` for the stream's own name, `schema.*`. Schemas are created if missing; "
        "table_prefix is not added. A table that another stream has is an error.",
        default={},
        additionalProperties={"type": "string", "minLength": 1},
    )
    table: str | None = setting(
        "Other table or schema, as in the setting tables: `table`, `schema.table` or `schema.*`.",
        scope="stream",
        minLength=1,
    )
    key_properties: tuple[str, ...] | None = setting(
        "Properties that together identify a row, in place of those that the tap sends.", scope="stream"
    )
    streams: Mapping[str, Mapping[str, Any]] = setting(
        "Settings of some streams, in place of those of the run: an object from names of streams, or patterns "
        "(`events_*`), to objects of settings. Where several have a setting, the most exact name counts.",
        default={},
        kind=dict,
    )
    aws: AwsOptions = field(default_factory=AwsOptions)
    """How batch files on S3 are read: a target's setting `aws`, else what the SDK hands to s3fs."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read a configuration that the JSON Schema accepts; ConfigError if two settings contradict each other."""
        given = given_settings(config)
        settings = read_settings(cls, given)
        if not given.get("aws"):
            settings = replace(settings, aws=storage_options(given.get("batch_config")))
        own = Roots.parse((), _storage_of(given).get("root")).own
        settings = replace(settings, manifest_roots=replace(settings.manifest_roots, own=own))
        for spec in settings.tables.values():
            place_in(spec)
        for name, entry in settings.streams.items():
            try:
                place_in(entry.get("table") or "*", "table")
                replace(settings, **settings_in(cls, entry)).checked()
            except ConfigError as error:
                raise ConfigError(f"Setting 'streams.{name}': {error}") from None
        if settings.clean_up_batch_files and not settings.manifest_roots.roots:
            raise ConfigError(
                "Setting 'clean_up_batch_files' needs 'manifest_roots': name the folders of the tap's batch storage, "
                "so that nothing else is removed"
            )
        return settings.checked()

    def checked(self) -> Self:
        """Return the settings, completed, or raise ConfigError: for what a target has to check."""
        return self

    def of_stream(self, stream: str, *, sent: str | None = None) -> Self:
        """Return the settings for a stream, also those of its entries in `streams`; `sent`: the tap's load method."""
        fitting = [name for name in self.streams if name == stream or fnmatch.fnmatchcase(stream, name)]
        given: dict[str, Any] = {"load_method": self.load_method or sent or APPEND}
        for name in sorted(fitting, key=lambda name: (name == stream, len(re.sub(r"[*?]|\[.*?\]", "", name)))):
            given |= given_settings(self.streams[name])
        return replace(self, **settings_in(type(self), given))

    def check_streams(self, came: Collection[str], *, is_whole: bool) -> None:
        """Check that each stream that `streams` names is one of the input.

        ConfigError: a name is not, and the input `is_whole`. Of other input, the tap may have ended before the stream
        came, so there is a warning.
        """
        for name in self.streams:
            if not any(fnmatch.fnmatchcase(stream, name) for stream in came) and re.search(r"[*?\[]", name):
                logger.warning("Setting 'streams' has %r, and no stream of such a name came", name)
            elif name not in came and not re.search(r"[*?\[]", name):
                hint = nearest(name, came) or "; if the tap has no such stream, remove it"
                line = f"Setting 'streams' has {name!r}, and no stream of that name came"
                if is_whole:
                    raise ConfigError(f"{line}{hint}")
                logger.warning("%s%s (or the tap ended before it came)", line, hint)

    @property
    def most_rejected(self) -> int | None:
        """How many bad rows may be put into the table for them; None: the first one ends the run."""
        return self.max_bad_rows if self.on_bad_row == DEAD_LETTER else None

    def place_of(self, stream: str) -> tuple[str | None, str | None]:
        """Return the schema and the name that are set for a stream's table.

        None: the schema of all streams, a name derived from the stream's.
        """
        spec = self.table or of_stream(self.tables, stream)
        schema, table = place_in(spec) if spec else (None, None)
        return schema, table and table.replace("*", stream)

    def names_table(self, stream: str) -> bool:
        """Return whether the settings name a stream's table, not only its schema."""
        spec = self.table or of_stream(self.tables, stream)
        return bool(spec) and place_in(spec)[1] != "*"

    def table_names(self, stream: str, rules: NamingRules) -> tuple[str, str]:
        """Return the name of a stream's table, and the one that it has where that is another stream's."""
        prefix, alias = self.table_prefix, self.place_of(stream)[1]
        name = table_name(stream, rules, prefix=prefix, alias=alias)
        return name, distinct_table_name(stream, rules, prefix=prefix, alias=alias)

    @property
    def other_schemas(self) -> frozenset[str]:
        """The schemas that `tables` or `table` names."""
        specs = [*self.tables.values(), *([self.table] if self.table else [])]
        return frozenset(schema for spec in specs if (schema := place_in(spec)[0]))


def target_schema(cls: type[LoadSettings]) -> dict[str, Any]:
    """Return the JSON Schema of a target's settings; without defaults in `streams`."""
    schema = json_schema(cls)
    entry = without_defaults(json_schema(cls, scope="stream"))
    for part in entry["properties"].values():
        if "object" in part["type"] and part["type"] != ["object", "null"]:  # from streams to values
            part["type"] = [kind for kind in part["type"] if kind != "object"]
            part.pop("additionalProperties", None)
    schema["properties"]["streams"]["additionalProperties"] = entry
    return schema


STORAGE_PARAMS: dict[str, Any] = {
    "type": ["object", "null"],
    "description": "How batch files on S3 are read, in the words of s3fs: key, secret, token, profile, anon, "
    "endpoint_url, client_kwargs. By default, those of the environment.",
    "secret": True,
    "writeOnly": True,
}
"""`batch_config.storage.params`, which the SDK reads and does not declare; `storage_options` reads it."""


def storage_options(batch_config: Mapping[str, Any] | None) -> AwsOptions:
    """Return how batch files on S3 are read, from the parameters that `batch_config.storage.params` gives to s3fs."""
    params = _storage_of({"batch_config": batch_config}).get("params") or {}
    if bool(params.get("key")) != bool(params.get("secret")):
        msg = "Settings 'key' and 'secret' of 'batch_config.storage.params' belong together; give both or neither"
        raise ConfigError(msg)
    client = params.get("client_kwargs") or {}
    return AwsOptions.from_config(
        {
            "access_key_id": params.get("key"),
            "secret_access_key": params.get("secret"),
            "session_token": params.get("token"),
            "profile": params.get("profile"),
            "anonymous": params.get("anon"),
            "endpoint_url": params.get("endpoint_url") or client.get("endpoint_url"),
            "region": client.get("region_name"),
        }
    )


def _storage_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the SDK's `batch_config.storage`."""
    storage: Mapping[str, Any] | None = (given.get("batch_config") or {}).get("storage")
    return storage or {}


def given_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is set: null and empty text mean not set."""
    return {name: value for name, value in config.items() if value not in (None, "")}


def place_in(spec: str, setting: str = "tables") -> tuple[str | None, str]:
    """Return the schema, if it names one, and the table of an entry of `tables`, or raise ConfigError."""
    schema, dot, table = spec.rpartition(".")
    if not table or (dot and not schema) or "." in schema or "*" in schema:
        raise ConfigError(f"Setting {setting!r} has {spec!r}; a table reads table, schema.table or schema.*")
    return schema or None, table


def of_stream(given: Any, stream: str) -> Any:
    """Return the value that a setting has for a stream; a plain value is that of all streams.

    It may be an object from names of streams, or patterns of them such as `events_*`, to values; the stream's own entry
    comes before those of patterns. None if there is none for this stream.
    """
    if not isinstance(given, Mapping):
        return given
    if stream in given:
        return given[stream]
    return next((value for pattern, value in given.items() if fnmatch.fnmatchcase(stream, pattern)), None)


def each_value(given: Any) -> Iterator[Any]:
    """Yield all values that such a setting has for any stream."""
    if isinstance(given, Mapping):
        yield from given.values()
    elif given:
        yield given
