"""The version of this package and the place of its documentation; a test compares the version with ``pyproject.toml``."""

VERSION = "0.2.0"
DOCUMENTATION = "docs/index.md in the source tree (first docs/tutorial.md)"  # where help texts send a reader
