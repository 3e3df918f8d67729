"""Child processes that serve S3 to the contenders of a case; they end with the process that started them."""
