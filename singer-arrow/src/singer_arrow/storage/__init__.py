"""Objects on S3, Google Cloud Storage, Azure and local disk.

store     `Storage`: list, read, write and delete objects by URL; the store of a URL
places    Whether an address found in data is below a root that a setting allows
urls      `Url`: parse, join and glob URLs; objects and their versions. Pure
listing   S3 by botocore, for keys and listings that obstore does not support
redirects Redirects of an endpoint are refused
log_head  Logs that are only appended to: their identity, their compaction
aws       AWS credentials, endpoint and region by botocore; its settings
errors    Errors of obstore and botocore -> ours, and which are tried again; the only place that does
"""
