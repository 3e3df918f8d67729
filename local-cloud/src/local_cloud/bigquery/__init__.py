"""The local BigQuery: the package local-bigquery in an environment of its own, made on first use."""
