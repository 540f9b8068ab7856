"""All that the tables and buckets have of one tenant."""
