"""The connection to BigQuery: client, jobs, retries, quotas, errors.

client            Client of one dataset: tables, columns, grants
jobs              Query, load and copy jobs, each exactly once
connection        Credentials, a client for each thread, and retries
resources         Tables, jobs and query results; translates the errors of Google's libraries
error_kinds       Classifies errors: which are worth a retry
load_job_quota    Counts the load jobs of a table and warns before the daily quota
dead_connections  Socket options that end connections whose peer is gone
"""
