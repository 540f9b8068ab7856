"""The version of this package; a test compares it with ``pyproject.toml``."""

VERSION = "0.1.0"
