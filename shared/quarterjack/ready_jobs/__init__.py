"""Ready jobs: an HTTP request (``http``) or a command (``command``) as a job, registered with one call.

This module imports neither: a worker that only runs commands loads no HTTP client.
"""
