"""A Singer target that loads BATCH files, each exactly once, and RECORD messages into Amazon Redshift."""
