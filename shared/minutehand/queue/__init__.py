"""SQS behind the verbs that ``flow.ports`` names."""
