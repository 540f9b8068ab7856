"""What an owner does to one run: submit, trigger, cancel, replay, redrive."""
