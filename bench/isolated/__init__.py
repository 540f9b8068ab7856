"""What the start of an isolated attempt costs, and jobs to start."""
