"""The installation at work, as a tenant sees it: queues, workers, jobs, what holds runs back, and who did what."""
