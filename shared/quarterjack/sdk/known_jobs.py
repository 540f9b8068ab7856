"""The warning about a job that no worker knows: it names the line of the caller, also where a coroutine's call runs in a thread."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from quarterjack.errors import UnknownJobWarning

_Place = tuple[str, int]  # file, line
_awaited_at: ContextVar[_Place | None] = ContextVar("awaited_at", default=None)
_shown: dict[Any, Any] = {}  # what ``warnings`` has shown already: by default each text once a line


@contextmanager
def awaited_here() -> Iterator[None]:
    """Within this, in threads with a copy of this context, too, a warning names the line outside of this package that called."""
    token = _awaited_at.set(_outside(sys._getframe(2)))  # noqa: SLF001 (what ``warnings`` itself does)
    try:
        yield
    finally:
        _awaited_at.reset(token)


def warn_unknown(text: str) -> None:
    """Issue an UnknownJobWarning that names the first line outside of this package."""
    file, line = _awaited_at.get() or _outside(sys._getframe(1))  # noqa: SLF001 (as above)
    warnings.warn_explicit(text, UnknownJobWarning, file, line, registry=_shown)


def _outside(frame: FrameType | None) -> _Place:
    while frame is not None and _is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _is_ours(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith("quarterjack.") or name == "contextlib"
