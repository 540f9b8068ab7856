"""Durable waits: how a run parks and is woken, and in which order its job asked for waits and children."""
