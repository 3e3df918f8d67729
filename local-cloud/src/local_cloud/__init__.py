"""S3 with SQS, Google Cloud Storage, BigQuery, Redshift, Flight SQL and Dask on loopback, for development and tests.

bigquery     the local BigQuery, in an environment of its own
certificates  certificates for services with TLS
cli          the commands `run`, `up` and `seed`
cloud        starts the services and describes them to clients
command      runs a command in its own process group, and ends the group
dask         the local Dask cluster
demo         the demonstration of both pipes
environment  the environment variables of clients
errors       the error for services that cannot start
faults       a proxy that delays requests and makes them fail
flightsql    the local Flight SQL server
gcs          the local Google Cloud Storage
lifeline     ends a child process when its parent ends
loopback     an HTTP server on 127.0.0.1
process      starts a service as a child process
programs     runs executables as a user does
pythons      finds an installed Python of a given version
redshift     the local Redshift
s3           the local S3 and SQS
seed         real sample data, uploaded to a bucket
"""

from local_cloud.cloud import SERVICES, Cloud
from local_cloud.errors import LocalCloudError

__all__ = ["SERVICES", "Cloud", "LocalCloudError"]
