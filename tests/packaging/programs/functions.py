"""The extra functions: the handlers are there, under the name that they have in a bundle."""

from __future__ import annotations

from importlib import import_module

for part in ("auditor", "events", "historian", "ticker", "undertaker", "worker"):
    assert callable(import_module(f"functions.{part}.handler").handler), part
