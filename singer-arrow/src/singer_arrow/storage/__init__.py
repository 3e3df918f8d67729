"""Objects on S3, Google Cloud Storage, Azure and local disk.

aws            How AWS is reached
aws_env        How AWS is reached where settings and environment variables alone tell it
cache          What was read of objects and may be wanted again within a run
errors         What object stores answer when something is wrong, as our errors. Both obstore's words and botocore's e
object_info    What is known of an object in a storage
retry          How a process asks stores
s3_client      S3 by botocore, for what obstore cannot do
storage        Object storage by URL
store_factory  Opens obstore's stores: where a bucket is, how it is reached, and with which credentials
urls           What a URL names: scheme, bucket and key; joining and globbing. Pure text, no I/O
"""
