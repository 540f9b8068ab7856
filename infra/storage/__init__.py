"""What keeps data: tables, bucket, queues, and the archive as a table of Athena."""
