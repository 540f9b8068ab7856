"""The SDK in parts; ``quarterjack.Scheduler`` is all of them."""
