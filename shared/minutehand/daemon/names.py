"""Names of processes, for locks, logs and attempts' rows."""

from __future__ import annotations

import os
import socket
import uuid


def process_name(kind: str) -> str:
    """Unique among processes, readable in logs and attempts' rows."""
    return f"{kind}@{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
