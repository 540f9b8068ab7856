"""Workers outside of Lambda: a service of containers on a queue, and the figure by which it grows."""
