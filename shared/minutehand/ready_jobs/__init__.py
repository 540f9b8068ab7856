"""Jobs that are ready to use: HTTP requests, commands, AWS targets."""
