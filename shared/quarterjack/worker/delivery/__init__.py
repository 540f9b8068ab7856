"""One received message: received, kept hidden by the heartbeat, and deleted, shown or sent anew at its end."""
