"""S3 with SQS, Google Cloud Storage, BigQuery and Redshift on loopback, for development and tests."""

from local_cloud.cloud import SERVICES, Cloud
from local_cloud.errors import LocalCloudError

__all__ = ["SERVICES", "Cloud", "LocalCloudError"]
