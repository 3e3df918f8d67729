"""What a run costs by list prices.

Amounts for each scenario are means of a run on the local cloud (2026-11-27): requests and bytes counted by a proxy in
front of S3, without those of COPY and of Redshift's own; jobs and bytes billed by the list of jobs. Seconds of Redshift
are an estimate: no local service shows how long a workgroup is awake. No bill has confirmed any of it.

Prices are those of us-east-1, and of the US multi-region for BigQuery. S3, requests of Standard:
aws.amazon.com/s3/pricing; BigQuery on demand, where 1 TiB a month is free: cloud.google.com/bigquery/pricing; Redshift
Serverless: aws.amazon.com/redshift/pricing, as others published them (Redshift: read on 2026-10-07; S3 and BigQuery: on
2026-11-27).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from acceptance.scenario import Scenario

PRICES_OF = "2026-11-27"
SOURCES = "aws.amazon.com/s3/pricing, aws.amazon.com/redshift/pricing, cloud.google.com/bigquery/pricing"
WRITES, READS, KB = 26, 22, 60  # requests of S3 and bytes, for each scenario
LOAD_JOBS, QUERIES, QUERY_MB = 2, 12, 7  # of BigQuery: 10 MB at least for each table of a query; some bill nothing
REDSHIFT_SECONDS, RPU = 20, 8
DOLLARS_PER_WRITE, DOLLARS_PER_READ = 0.005 / 1000, 0.0004 / 1000
DOLLARS_PER_TIB, DOLLARS_PER_RPU_HOUR = 6.25, 0.375


def estimate(scenarios: Sequence[Scenario]) -> str:
    """Return what these scenarios cost, as lines for a terminal."""
    count = len(scenarios)
    by_warehouse = Counter(one.warehouse for one in scenarios)
    s3 = count * (WRITES * DOLLARS_PER_WRITE + READS * DOLLARS_PER_READ)
    big, red = by_warehouse["bigquery"], by_warehouse["redshift"]
    bigquery = big * QUERIES * QUERY_MB / 1024**2 * DOLLARS_PER_TIB
    redshift = red * REDSHIFT_SECONDS / 3600 * RPU * DOLLARS_PER_RPU_HOUR
    lines = [
        f"{count} scenarios by list prices of us-east-1 and US, as of {PRICES_OF} ({SOURCES}):",
        f"  S3        {count * WRITES:,} writes and {count * READS:,} reads of {count * KB / 1000:,.0f} MB: ${s3:.2f}",
    ]
    if big:
        queries = f"{big * QUERIES:,} queries of {QUERY_MB} MB: ${bigquery:.2f}, or free within 1 TiB a month"
        lines.append(f"  BigQuery  {big * LOAD_JOBS:,} load jobs (free), {queries}")
    if red:
        lines.append(
            f"  Redshift  {red * REDSHIFT_SECONDS / 60:.0f} minutes: ${redshift:.2f} with {RPU} RPU of Serverless; "
            "nothing more on a cluster that runs anyway"
        )
    return "\n".join([*lines, f"  together  ${s3 + bigquery + redshift:.2f}"])
