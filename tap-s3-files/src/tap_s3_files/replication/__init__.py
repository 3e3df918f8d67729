"""Learn of new objects from an SQS queue.

s3_event     Parse the messages that S3, SNS and EventBridge write. Pure
sqs_events   Plan the objects that messages name; delete a message once STATE is behind its objects
sqs_queue    Receive and delete messages; keep them invisible to other readers meanwhile
queue_setup  Create the queue, and let buckets send events to it
"""
