"""A ticker that is killed between claim and send: its runs are in the ledger, their messages nowhere."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from quarterjack.daemon.roles import run_ticker
from quarterjack.domain.times import SECOND
from quarterjack.settings import from_environment
from quarterjack.sqs.queues import SqsWorkQueue
from quarterjack.ticker import tick


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    tick.LOCK = 3 * SECOND  # its shard is locked for so long: nobody's fires are late for the test
    SqsWorkQueue.send = die  # type: ignore[assignment,method-assign]
    run_ticker(from_environment(), stop=threading.Event())
