"""What a user can do wrong: the run ends with one line."""

from __future__ import annotations

from acceptance.pipeline import Pipeline, check, numbered
from acceptance.scenario import scenario


@scenario("any")
def wrong_bucket(p: Pipeline) -> None:
    """A bucket that does not exist is named."""
    name = f"{p.site.name.replace('_', '-')}-none"
    p.run(path=f"s3://{name}/**", fails=name)


@scenario("any", needs=["rights"])
def wrong_keys(p: Pipeline) -> None:
    """Keys that AWS does not know are an error of credentials."""
    p.run({"aws": {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "x" * 40}}, fails="credential|key")


@scenario()
def unknown_setting(p: Pipeline) -> None:
    """A setting that does not exist ends the run before anything is read, with the nearest one."""
    p.put("a.csv", numbered(0, 1))
    p.run(target={"load_methode": "upsert"}, fails="load_method")
    check(p.stream not in p.warehouse.tables(), "The table was created")


@scenario("bigquery")
def wrong_dataset(p: Pipeline) -> None:
    """A name that no dataset can have ends the run with the service's words."""
    p.put("a.csv", numbered(0, 1))
    p.run(target={"dataset": "no-dataset!"}, fails="dataset")


@scenario("bigquery", needs=["rights"])
def no_right(p: Pipeline) -> None:
    """A project of others is refused with the service's words."""
    p.put("a.csv", numbered(0, 1))
    p.run(target={"project": "bigquery-public-data", "dataset": p.site.name}, fails="denied|permission")


@scenario("bigquery")
def wrong_location(p: Pipeline) -> None:
    """A location other than the dataset's ends the run."""
    p.put("a.csv", numbered(0, 1))
    p.run(target={"location": "africa-south1"}, fails="africa-south1")


@scenario("bigquery")
def limit_of_bytes(p: Pipeline) -> None:
    """An upsert beyond bytes_billed_limit bills nothing and ends the run."""
    p.put("a.csv", numbered(0, 3))
    p.run(load_method="upsert", target={"bytes_billed_limit": 1}, fails="bytes_billed_limit")


@scenario("redshift")
def wrong_database(p: Pipeline) -> None:
    """A database that does not exist is named."""
    p.put("a.csv", numbered(0, 1))
    p.run(target={"dbname": p.site.name}, fails=p.site.name)


@scenario("redshift")
def wrong_role(p: Pipeline) -> None:
    """A role that COPY cannot use ends the run with the service's words, and nothing is loaded."""
    p.put("a.csv", numbered(0, 1))
    p.run(target={"copy_role_arn": "arn:aws:iam::123456789012:role/acceptance-denied"}, fails="role")
    check(p.stream not in p.warehouse.tables() or p.rows("COUNT(*)") == [(0,)], "Rows were loaded")


@scenario("redshift")
def too_many_columns(p: Pipeline) -> None:
    """More columns than a table can have end the run with the service's words."""
    names = ",".join(f"c{i}" for i in range(1700))
    p.put("a.csv", f"id,{names}\n{','.join('1' for _ in range(1701))}\n")
    p.run(fails="column")
