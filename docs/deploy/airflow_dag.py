"""A DAG of Airflow 3 that loads what is new every hour; /opt/pipeline has pipeline.yml and .env."""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "s3_to_warehouse",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="load",
        bash_command="singer-arrow run /opt/pipeline/pipeline.yml",
        retries=3,
        retry_delay=timedelta(minutes=5),
    )
