"""A DAG of Airflow 3 that plans once and loads with four tasks at once; the workers share /opt/pipeline."""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

SHARDS = 4

with DAG(
    "s3_to_warehouse_in_shards",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
) as dag:
    plan = BashOperator(
        task_id="plan",
        bash_command="tap-s3-files --config tap.yml --config=ENV --catalog catalog.json --write-plan",
        cwd="/opt/pipeline",
    )
    load = BashOperator.partial(
        task_id="load",
        bash_command="singer-arrow run /opt/pipeline/pipeline-shards.yml",
        append_env=True,
        retries=3,
        retry_delay=timedelta(minutes=5),
    ).expand(env=[{"TAP_S3_FILES_SHARD": f"{n}/{SHARDS}"} for n in range(SHARDS)])
    plan >> load
