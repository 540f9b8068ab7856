"""The services that a role was given, or those of its settings."""

from __future__ import annotations

from minutehand.ports.services import Services
from minutehand.services import connect
from minutehand.settings import Settings


def connected(where: Settings | Services) -> Services:
    """Services as given; of settings, new ones."""
    return connect(where) if isinstance(where, Settings) else where
