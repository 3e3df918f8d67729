"""A Singer tap that reads files from S3 and hands them on as BATCH files or RECORD messages."""
