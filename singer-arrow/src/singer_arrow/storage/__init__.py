"""Objects on S3, Google Cloud Storage, Azure and local disk.

storage         `Storage`: list, read, write and delete objects by URL
urls            `Url`: parse, join and glob URLs. Pure
object_info     Metadata, fetched bytes, and cached data of versions of objects
object_page     `ObjectPage`: a page of a listing in columns. Pure
log_head        Identify a log that is only appended to, and begin it with a conditional write
log_compaction  Choose the files of a log that become one. Pure
store_factory   Open obstore's stores: region, endpoint and credentials of a bucket
s3_client      S3 by botocore, for keys and listings that obstore does not support
aws_options     `AwsOptions`: the setting `aws`, and the access that it and the environment give without botocore
aws             AWS credentials, endpoint and region by botocore
retry           Retries and the limit of concurrent requests
errors          Translate errors of obstore and botocore to ours; the only place that does
"""
