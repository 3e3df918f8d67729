"""The command `singer-arrow`: `singer-arrow report FOLDER` writes a page about all runs with a report there."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from singer_arrow.errors import NotFoundError, SingerArrowError, with_code
from singer_arrow.report.folder import INDEX, ReportFolder
from singer_arrow.report.history import history_page
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url

MOST = 200
"""Maximum number of runs on a page."""


@click.group()
def main() -> None:
    """Tools of the connectors that use singer-arrow."""


@main.command()
@click.argument("folder")
@click.option("--last", default=MOST, show_default=True, help="Maximum number of runs, the newest ones.")
def report(folder: str, last: int) -> None:
    """Write FOLDER/index.html: plots and a table of the runs whose setting `report` was FOLDER.

    FOLDER is a local path or a URL such as s3://bucket/reports; credentials are those of the environment.
    """
    try:
        reports = ReportFolder(Storage(), Url.parse(folder))
        names = reports.names()
        if not names:
            raise NotFoundError(f"{folder} has no report; give the connectors the setting report, with this folder")
        text = history_page(list(reports.reports(last)), now=datetime.now(UTC), runs=len(names))
        click.echo(reports.write_page(INDEX, text))
    except SingerArrowError as error:
        raise click.ClickException(with_code(str(error), error.code)) from None
