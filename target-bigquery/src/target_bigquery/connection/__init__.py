"""Calls of BigQuery: clients, jobs, retries, quotas.

client            BigQuery as the target needs it: the dataset and its tables, and the jobs on them
connection        The connection to BigQuery
dead_connections  How connections to BigQuery end whose other side is gone without a word; see `singer_arrow.runtime.t
error_kinds       Which of BigQuery's errors are worth another try. Pure
jobs              Jobs
load_job_quota    How many load jobs a table had within a day, of which BigQuery allows 1,500, failed ones and copies
resources         What BigQuery answers, in our words
"""
