"""DynamoDB and S3 behind the verbs that ``flow.ports`` names."""
