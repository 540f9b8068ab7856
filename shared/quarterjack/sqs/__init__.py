"""SQS, SNS and asynchronous Lambda invocations behind the protocols of ``ports``."""
