"""The minute: go through the agenda's shards and handle what is due."""
