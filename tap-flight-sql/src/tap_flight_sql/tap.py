"""The tap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from singer_arrow.errors import SingerArrowError
from singer_arrow.sdk.tap import ArrowTap
from singer_arrow.storage.storage import Storage
from tap_flight_sql.catalog import catalog_schema, table_streams
from tap_flight_sql.config_schema import CONFIG_JSONSCHEMA
from tap_flight_sql.server import Server
from tap_flight_sql.settings import Settings
from tap_flight_sql.stream import QueryStream


class TapFlightSql(ArrowTap):
    """Reads query results of an Arrow Flight SQL server and sends them as BATCH files."""

    name = "tap-flight-sql"
    package_name = "singer-arrow-tap-flight-sql"
    config_jsonschema: ClassVar[dict[str, Any]] = CONFIG_JSONSCHEMA
    settings: Settings

    def check_settings(self) -> None:
        self.settings = Settings.from_config(self.config)

    @cached_property
    def server(self) -> Server:
        """The server of all streams."""
        return Server(self.settings.server)

    @cached_property
    def storage(self) -> Storage:
        """Where batch files and window logs are."""
        return Storage(self.settings.aws)

    def discover_streams(self) -> Sequence[QueryStream]:
        """Return the streams of the settings, or the tables of the server, with the schemas of a given catalog."""
        streams = self.settings.streams or tuple(table_streams(self.server))
        catalog, found = self.input_catalog, []
        nothing: Mapping[str, Any] = {"type": "object", "properties": {}}
        for name in (catalog or {}).keys() - {s.name for s in streams}:
            self.logger.warning("The catalog's stream %r is neither in 'streams' nor a table; it is left out", name)
        for stream in streams:
            schema: Mapping[str, Any] = nothing
            try:
                if catalog is None:
                    schema = catalog_schema(self.server, stream)
                elif stream.name in catalog:
                    schema = catalog[stream.name].schema.to_dict()
            except SingerArrowError as error:
                self.fail_stream(stream.name, error, is_only=len(streams) == 1)
                continue
            found.append(
                QueryStream(
                    self, run=self.settings, server=self.server, storage=self.storage, settings=stream, schema=schema
                )
            )
        return found
