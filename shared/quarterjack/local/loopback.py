"""Where this machine serves the API and the console, and the key of a start. It loads no framework."""

from __future__ import annotations

import secrets
import socket

from quarterjack.errors import InvalidInput

LOOPBACK = "127.0.0.1"
PORT = 8642
_KEY = "qjk_local_"  # so that scanners of secrets find it
_BYTES = 32  # of chance in a key


def new_key() -> str:
    """A key for one start of the server."""
    return _KEY + secrets.token_urlsafe(_BYTES)


def listen(port: int) -> socket.socket:
    """A socket that listens on loopback; 0 is any free port. Raises InvalidInput if it is taken."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as problem:
        remedy = "give another one, or 0 for any free one"
        raise InvalidInput("--port", port, f"cannot be served ({problem.strerror})", remedy) from None


def url_of(listening: socket.socket) -> str:
    """The address at which a listening socket is asked."""
    return f"http://{LOOPBACK}:{listening.getsockname()[1]}"
