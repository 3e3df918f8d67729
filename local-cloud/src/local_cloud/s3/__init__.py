"""The local S3 and SQS: moto in a process of its own."""
