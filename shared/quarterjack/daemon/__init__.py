"""The roles as long-running processes, and the shell of a worker that its process and its Lambda function share."""
