"""What an owner does to a schedule: create and update (`arm`), pause and delete (`stop`), resume, skip, tag."""
