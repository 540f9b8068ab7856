"""Import every module of the packages named as arguments; the first one that cannot be, or that warns under ``-W error``, ends it."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module


def import_all(package: str) -> int:
    """How many modules there were. ``__main__`` runs instead of being imported, so it is left out."""
    count = 0
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        if not module.name.endswith(".__main__"):
            import_module(module.name)  # before pkgutil does, which passes over what cannot be imported
            count += 1
    return count


if __name__ == "__main__":
    sys.stdout.write(f"{sum(import_all(package) for package in sys.argv[1:])} modules imported\n")
