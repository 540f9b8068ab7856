"""DynamoDB and S3 behind the protocols of ``ports``."""
