"""Other schedulers at the same work. ``with_*`` run in a virtual environment of their own, which knows nothing of ours."""
