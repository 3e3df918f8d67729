"""COPY: files of S3 as rows for PostgreSQL's own `COPY ... FROM STDIN`, by Redshift's rules.

command = parse(sql)
plan = run(command, columns, slices=2)      # checks that every file exists with the right length, or RedshiftError
for chunk in plan.chunks:                   # the payload of COPY table (plan.names) FROM STDIN, in text format
    ...                                     # RedshiftError from here: the load failed, see plan.errors
plan.rows, plan.errors, plan.files          # complete once the chunks are consumed, or have failed

columns      columns of the destination table
command      the parsed COPY, its credentials
json         COPY of JSON
parquet      COPY of Parquet
parse        parses the text of a COPY
running      runs a COPY
sources      finds and opens the files
text         COPY of delimited text and CSV
"""

from local_cloud.redshift.copy.columns import Column
from local_cloud.redshift.copy.command import Credentials
from local_cloud.redshift.copy.parse import parse
from local_cloud.redshift.copy.running import CopyPlan, run
from local_cloud.redshift.copy.sources import S3Objects
from local_cloud.redshift.errors import RedshiftError

__all__ = ["Column", "CopyPlan", "Credentials", "RedshiftError", "S3Objects", "parse", "run"]
