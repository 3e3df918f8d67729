"""Environment variables of a child of the local cloud."""

from local_cloud import environment


def test_what_would_lead_elsewhere_is_left_out() -> None:
    given = {"HOME": "/home/me", "AWS_PROFILE": "work", "AWS_SESSION_TOKEN": "old", "AWS_ENDPOINT_URL_S3": "https://s3"}
    cloud = environment.aws("http://127.0.0.1:1", "http://127.0.0.1:1/123456789012/source-events")
    merged = environment.merged(given, cloud)
    assert merged["HOME"] == "/home/me"
    assert merged["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert merged["AWS_CONFIG_FILE"] == merged["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"
    assert not set(merged) & {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"}


def test_the_loopback_needs_no_proxy() -> None:
    assert environment.without_proxy({})["NO_PROXY"] == "127.0.0.1,localhost"
    hosts = environment.without_proxy({"NO_PROXY": "example.org,localhost"})
    assert hosts == dict.fromkeys(("NO_PROXY", "no_proxy"), "example.org,localhost,127.0.0.1")


def test_the_contract() -> None:
    redshift = environment.redshift("127.0.0.1", 5439, "demo", "dev", tls=False)
    names = set(environment.aws("u", "q")) | set(environment.bigquery("u", "g", "s")) | set(redshift)
    assert names >= {
        "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED", "LOCAL_CLOUD_SOURCE_BUCKET", "LOCAL_CLOUD_STAGE_BUCKET",
        "LOCAL_CLOUD_SQS_QUEUE_URL", "TARGET_BIGQUERY_PROJECT", "TARGET_BIGQUERY_DATASET",
        "TARGET_BIGQUERY_API_ENDPOINT", "TARGET_REDSHIFT_HOST", "TARGET_REDSHIFT_PORT", "TARGET_REDSHIFT_USER",
        "TARGET_REDSHIFT_PASSWORD", "TARGET_REDSHIFT_DBNAME", "TARGET_REDSHIFT_S3_STAGE", "TARGET_REDSHIFT_SSL",
    }  # fmt: skip
