"""A job of Dagster that loads what is new every hour; /opt/pipeline has pipeline.yml and .env."""

import subprocess

import dagster


@dagster.op(retry_policy=dagster.RetryPolicy(max_retries=3, delay=300))
def load() -> None:
    """Run the pipeline once."""
    subprocess.run(["singer-arrow", "run", "/opt/pipeline/pipeline.yml"], check=True)


@dagster.job
def s3_to_warehouse() -> None:
    """Load what is new."""
    load()


defs = dagster.Definitions(
    jobs=[s3_to_warehouse],
    schedules=[dagster.ScheduleDefinition(job=s3_to_warehouse, cron_schedule="0 * * * *")],
)
