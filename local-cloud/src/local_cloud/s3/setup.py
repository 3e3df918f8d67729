"""The initial content of the local S3 and SQS: two buckets, and a queue for the events of new objects."""

import os
from typing import Any

from local_cloud import environment


def client(service: str, endpoint_url: str) -> Any:
    """Return a boto3 client of the local cloud, independent of the environment and its configuration files."""
    import boto3
    import botocore.session
    from botocore.config import Config

    nothing = (None, None, None, None)
    no_file = (None, None, os.devnull, None)
    isolated = botocore.session.Session({"profile": nothing, "config_file": no_file, "credentials_file": no_file})
    return boto3.Session(botocore_session=isolated).client(
        service,
        endpoint_url=endpoint_url,
        region_name=environment.REGION,
        aws_access_key_id=environment.ACCESS_KEY_ID,
        aws_secret_access_key=environment.SECRET_ACCESS_KEY,
        config=Config(proxies={}, retries={"max_attempts": 2}),
    )


def create(endpoint_url: str) -> str:
    """Create the buckets and the queue, connect them, and return the queue's URL. What exists stays."""
    s3 = client("s3", endpoint_url)
    for bucket in (environment.SOURCE_BUCKET, environment.STAGE_BUCKET):
        s3.create_bucket(Bucket=bucket)
    return connect_queue(endpoint_url, environment.SOURCE_BUCKET, environment.QUEUE)


def connect_queue(endpoint_url: str, bucket: str, queue: str) -> str:
    """Send the ObjectCreated events of a bucket to a queue, created if absent, and return the queue's URL."""
    sqs = client("sqs", endpoint_url)
    url: str = sqs.create_queue(QueueName=queue)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client("s3", endpoint_url).put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]},
    )
    return url
