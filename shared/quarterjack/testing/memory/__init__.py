"""An installation in memory: every port with the semantics of DynamoDB, SQS and S3."""
