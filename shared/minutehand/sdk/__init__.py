"""The SDK in parts; ``minutehand.Scheduler`` is all of them."""
