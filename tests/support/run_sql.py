"""Run SQL from standard input in the local BigQuery, and print the rows."""

from __future__ import annotations

import os
import sys

from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

client = bigquery.Client(
    os.environ["TARGET_BIGQUERY_PROJECT"],
    credentials=AnonymousCredentials(),
    client_options=ClientOptions(api_endpoint=os.environ["TARGET_BIGQUERY_API_ENDPOINT"]),
)
for row in client.query(sys.stdin.read()).result():
    print(*row.values())
