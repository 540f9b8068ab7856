"""Real processes over real HTTP while they are killed, stopped and cut off, judged from outside. ``make chaos FOR=600 SEED=1``."""
