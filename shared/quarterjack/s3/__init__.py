"""S3: large payloads, the archive, and the versions of objects."""
