"""The undertaker as a process."""

from __future__ import annotations

import logging
import threading

from minutehand.daemon.connected import connected
from minutehand.errors import Unavailable
from minutehand.ports.services import Services
from minutehand.ports.work_queue import RawMessage
from minutehand.services import system_clock
from minutehand.settings import Settings
from minutehand.undertaker.bury import bury_one

log = logging.getLogger(__name__)

_POLL = 5.0  # seconds of a long poll: also the longest that stopping waits for one
_PAUSE = 1.0  # seconds after a service was unavailable


def run_undertaker(where: Settings | Services, *, stop: threading.Event) -> None:
    """Record dead letters until ``stop``."""
    services = connected(where)
    while not stop.is_set():
        try:
            letters = services.dead.receive(most=10, wait=_POLL)
        except Unavailable as problem:
            log.warning("undertaker.unavailable", extra={"error": str(problem)})
            stop.wait(_PAUSE)
            continue
        for letter in letters:
            _bury(letter, services)


def _bury(letter: RawMessage, services: Services) -> None:
    """A letter that cannot be recorded now stays where it is and comes back."""
    try:
        bury_one(letter, services, system_clock)
        services.dead.delete(letter.receipt)
    except Exception:
        log.exception("undertaker.left", extra={"message_id": letter.id})
