"""Layouts of tables: stable creation times, and checks of partitioning and clustering."""

from typing import Any

from local_bigquery.catalog import ddl, metadata, row_access, tables
from local_bigquery.errors import BigQueryError
from local_bigquery.jobs import copy, query, runner
from local_bigquery.models import Table
from sqlglot import exp

from local_cloud.bigquery.server.files import files

# These must agree between a table and what is written to it; expirations may differ.
_COMPARED = ("timePartitioning", "rangePartitioning", "clustering")
Reference = tuple[str, str, str]


def _layout(resource: Any) -> dict[str, Any]:
    found = {key: value for key, value in resource.dump().items() if key in _COMPARED}
    partitioning = found.get("timePartitioning")
    if partitioning:
        found["timePartitioning"] = {"type": partitioning.get("type", "DAY"), "field": partitioning.get("field")}
    return found


def _spec(layout: dict[str, Any]) -> str:
    parts = []
    if partitioning := layout.get("timePartitioning"):
        field = f",field:{partitioning['field']}" if partitioning["field"] else ""
        parts.append(f"interval(type:{partitioning['type'].lower()}{field})")
    if partitioning := layout.get("rangePartitioning"):
        parts.append(f"range(field:{partitioning['field']})")
    if clustering := layout.get("clustering"):
        parts.append(f"clustering({','.join(clustering['fields'])})")
    return " ".join(parts) or "none"


def _stored(reference: Reference) -> Any:
    return metadata.load(Table, *reference) or tables.defaults(*reference)


def _check_layout(reference: Reference, given: dict[str, Any]) -> None:
    expected = _layout(_stored(reference))
    if given != expected:
        raise files.refuse(
            f"Incompatible table partitioning specification. Expects partitioning specification {_spec(expected)}, "
            f"but input partitioning specification is {_spec(given)}"
        )


def patch() -> None:
    """Replace the server's functions for layouts of tables."""
    lookup, defaults, write, run, prepare = tables._lookup, tables.defaults, tables.write, copy.run, query._ddl

    def defaults_in_place(*reference: str) -> Any:
        # A table is in the location of its dataset.
        dataset = metadata.load(tables.Dataset, *reference[:2])
        table = defaults(*reference)
        return table.replace(location=dataset.location) if dataset and dataset.location else table

    def lookup_unless_partition(*reference: str) -> Any:
        if "$" in reference[2]:
            raise files.unsupported(f"the partition {reference[2]} as a table of its own")
        return lookup(*reference)

    def write_checked(
        cursor: Any, sql: str, parameters: Any, reference: Reference, config: Any, *others: Any, **options: Any
    ) -> Any:
        permanent = reference[1] != tables.RESULTS
        given = _layout(config)
        if permanent and given and tables.exists(*reference):
            _check_layout(reference, given)
        created = write(cursor, sql, parameters, reference, config, *others, **options)
        if permanent:
            # Without this, the creation time of a table that only a job has made would be the time of each look-up.
            tables.record(*reference, _stored(reference).replace(lastModifiedTime=metadata.now()))
        return created

    def copy_job(cursor: Any, config: Any, upload: str | None) -> Any:
        source = tables.reference((config.sourceTables or [config.sourceTable])[0])
        destination = tables.reference(config.destinationTable)
        layout = _layout(_stored(source))
        existed = tables.exists(*destination)
        if existed:
            _check_layout(destination, layout)
        copied = run(cursor, config, upload)
        if not existed:
            tables.record(*destination, _stored(destination).replace(**_stored(source).only(*_COMPARED).dump()))
        # The source's row access policies, in place of those of a table that is replaced.
        if existed and config.writeDisposition == "WRITE_TRUNCATE":
            row_access.delete(*destination)
        for policy in row_access.list_(*source):
            row_access.save(*destination, policy, replace=True)
        return copied

    def prepare_checked(tree: Any, context: Any) -> Any:
        statistics = prepare(tree, context)
        replaces = isinstance(tree, exp.Create) and statistics.ddlOperationPerformed == "REPLACE"
        if replaces and statistics.ddlTargetTable:
            reference = tables.reference(statistics.ddlTargetTable)
            given = _layout(Table.model_validate(ddl._table(_layout_only(tree), reference, lambda _: None)))
            expected = _layout(_stored(reference))
            if given != expected:
                raise BigQueryError(
                    "invalidQuery",
                    "Cannot replace a table with a different partitioning spec. Instead, DROP the table, and then "
                    f"recreate it. New partitioning spec is {_spec(given)} and existing spec is {_spec(expected)}",
                )
        return statistics

    tables._lookup, tables.defaults, tables.write = lookup_unless_partition, defaults_in_place, write_checked
    copy.run = runner.HANDLERS["copy"] = copy_job
    query._ddl = prepare_checked


def _layout_only(tree: Any) -> Any:
    """Return the statement without its OPTIONS, which only the engine can evaluate."""
    bare = tree.copy()
    kept = (exp.PartitionedByProperty, exp.ClusterProperty)
    properties = bare.args.get("properties")
    if properties:
        properties.set("expressions", [node for node in properties.expressions if isinstance(node, kept)])
    bare.set("this", bare.find(exp.Table).copy())
    return bare
