"""A job of Dagster that loads what is new every hour; /opt/pipeline has load.sh, tap.yml and pipeline.env."""

import subprocess

import dagster


@dagster.op(retry_policy=dagster.RetryPolicy(max_retries=3, delay=300))
def load() -> None:
    """Run the pipeline once."""
    subprocess.run(["bash", "/opt/pipeline/load.sh"], check=True)


@dagster.job
def s3_to_warehouse() -> None:
    """Load what is new."""
    load()


defs = dagster.Definitions(
    jobs=[s3_to_warehouse],
    schedules=[dagster.ScheduleDefinition(job=s3_to_warehouse, cron_schedule="0 * * * *")],
)
