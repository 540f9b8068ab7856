"""The SDK for asyncio: ``calls`` (a method that is awaited, made from one of Scheduler's), then ``scheduler``."""
