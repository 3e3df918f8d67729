"""A DAG of Airflow 3 that plans once and loads with four tasks at once; /opt/pipeline is shared by the workers."""

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
    plan = BashOperator(task_id="plan", bash_command="bash /opt/pipeline/load.sh --write-plan")
    load = BashOperator.partial(
        task_id="load",
        bash_command="bash /opt/pipeline/load.sh ",  # a name that ends with .sh would be a template
        append_env=True,
        retries=3,
        retry_delay=timedelta(minutes=5),
    ).expand(env=[{"TAP_S3_FILES_SHARD": f"{n}/{SHARDS}"} for n in range(SHARDS)])
    plan >> load
