"""Fixtures for all tests: ``local_cloud`` (one for the session) and ``local_settings`` (a fresh installation on it)."""

pytest_plugins = ["minutehand.testing.plugin"]
