"""What an owner does to a schedule: create, update, pause, resume, skip, delete."""
