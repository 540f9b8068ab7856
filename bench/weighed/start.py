"""A function from the start of its interpreter to its first call of AWS."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

from bench.weighed.scale import peak, say


class Called(Exception):
    """Here it ends."""


def main(function: str) -> None:
    services = importlib.import_module(f"functions.{function}.handler").services()
    services.ledger._client.raw.meta.events.register("before-send.*", _stop)
    try:
        services.agenda.shards(fresh=True)
    except Called:
        say(cpu_ms=time.process_time() * 1_000, peak_mb=peak())


def _stop(**_: Any) -> None:
    raise Called


if __name__ == "__main__":
    main(sys.argv[1])
