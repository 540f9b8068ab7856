"""Values of a job as JSON text: what it returns, and what it keeps beside its run."""

from __future__ import annotations

import inspect
import json
from typing import Any

from quarterjack.domain.payload import MAX_DEPTH, is_too_deep
from quarterjack.errors import InvalidInput

_TOO_DEEP = (
    f"has lists and dicts nested more than {MAX_DEPTH} levels deep",
    "flatten it, or store it and keep its address",
)


def json_text(what: str, value: Any, most: int) -> str:
    """A value of a job as JSON text. Raises InvalidInput if it is none or too large."""
    text = ""
    wrong: tuple[str, str] | None = None
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        wrong = _TOO_DEEP
    except (TypeError, ValueError) as problem:
        wrong = f"is not JSON ({problem})", "use dicts, lists, text, finite numbers, booleans, None"
    if is_too_deep(text):
        wrong = _TOO_DEEP
    elif len(text) > most:
        wrong = f"has {len(text):,} bytes of JSON", f"keep it within {most:,}, or store it and keep its address"
    if wrong is not None:
        raise InvalidInput(what, value, *wrong)
    return text


def plain_result(name: str, result: Any) -> Any:
    """A step's result. Only an async function is known as such before it is called, in every attempt."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidInput(
            "step", name, "gave something to await", "pass the async function itself, or functools.partial of it"
        )
    return result
