"""The local Google Cloud Storage: files below a folder, served by its XML API, from which the local BigQuery loads.

objects  buckets and objects as files
server   the XML API
"""
