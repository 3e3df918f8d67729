"""The environment variables of connectors and other clients. Pure."""

import json
import os
from collections.abc import Mapping

REGION = "us-east-1"
ACCESS_KEY_ID = "test"
SECRET_ACCESS_KEY = "testtesttest"  # noqa: S105 - no secret: the local S3 accepts any
PROJECT = "local"
DATASET = "demo"
SOURCE_BUCKET = "source"
STAGE_BUCKET = "stage"
QUEUE = "source-events"
REDSHIFT_PASSWORD = "Demo-1234"  # noqa: S105 - no secret: the local Redshift is on loopback only
FLIGHTSQL_PASSWORD = "Demo-1234"  # noqa: S105 - no secret: the local server is on loopback only
REDSHIFT_STAGE = f"s3://{STAGE_BUCKET}/redshift"

# Variables that lead a client to a real account although an endpoint is given.
MISLEADING = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_STS",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
)


def aws(endpoint_url: str, queue_url: str) -> dict[str, str]:
    """Return the variables for S3 and SQS. They disable the user's configuration files."""
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "LOCAL_CLOUD_SOURCE_BUCKET": SOURCE_BUCKET,
        "LOCAL_CLOUD_STAGE_BUCKET": STAGE_BUCKET,
        "LOCAL_CLOUD_SQS_QUEUE_URL": queue_url,
    }


def bigquery(rest_url: str, grpc_address: str, gcs_url: str) -> dict[str, str]:
    """Return the variables for BigQuery, with the address of its Storage API (gRPC), and Google Cloud Storage."""
    return {
        "TARGET_BIGQUERY_PROJECT": PROJECT,
        "TARGET_BIGQUERY_DATASET": DATASET,
        "TARGET_BIGQUERY_API_ENDPOINT": rest_url,
        "TARGET_BIGQUERY_STORAGE_WRITE_ENDPOINT": f"http://{grpc_address}",
        "LOCAL_CLOUD_BIGQUERY_GRPC": grpc_address,
        "STORAGE_EMULATOR_HOST": gcs_url,
        "LOCAL_CLOUD_GCS_BUCKET": STAGE_BUCKET,
    }


def redshift(host: str, port: int, user: str, dbname: str, *, tls: bool) -> dict[str, str]:
    """Return the variables for Redshift."""
    return {
        "TARGET_REDSHIFT_HOST": host,
        "TARGET_REDSHIFT_PORT": str(port),
        "TARGET_REDSHIFT_USER": user,
        "TARGET_REDSHIFT_PASSWORD": REDSHIFT_PASSWORD,
        "TARGET_REDSHIFT_DBNAME": dbname,
        "TARGET_REDSHIFT_S3_STAGE": REDSHIFT_STAGE,
        "TARGET_REDSHIFT_SSL": "true" if tls else "false",
    }


def flightsql(uri: str, username: str) -> dict[str, str]:
    """Return the variables for Flight SQL."""
    tls = {} if uri.startswith("grpc+tls") else {"TAP_FLIGHT_SQL_TLS": "false"}
    return {
        "TAP_FLIGHT_SQL_URI": uri,
        "TAP_FLIGHT_SQL_USERNAME": username,
        "TAP_FLIGHT_SQL_PASSWORD": FLIGHTSQL_PASSWORD,
        **tls,
    }


def dask(address: str, tls: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for tap-s3-files on Dask."""
    return {
        "TAP_S3_FILES_EXECUTOR": "dask",
        "TAP_S3_FILES_DASK_SCHEDULER": address,
        "TAP_S3_FILES_DASK_TLS": json.dumps(dict(tls)),
    }


def without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Return NO_PROXY with the loopback added, so that no proxy of the network is used for it."""
    known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [host for host in known.split(",") if host]
    hosts += [host for host in ("127.0.0.1", "localhost") if host not in hosts]
    return {"NO_PROXY": ",".join(hosts), "no_proxy": ",".join(hosts)}


def merged(environ: Mapping[str, str], cloud: Mapping[str, str]) -> dict[str, str]:
    """Return the full environment of a child: the caller's, without misleading variables, plus the cloud's."""
    return {name: value for name, value in environ.items() if name not in MISLEADING} | dict(cloud)
