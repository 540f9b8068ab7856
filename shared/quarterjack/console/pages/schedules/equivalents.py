"""What a form does as a command and as a file: the same words in the shell and in YAML."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from quarterjack.apply.document import DeclarationFile, write
from quarterjack.console.pages.schedules.fields import compact

# Flags of `quarterjack schedules` that are not made from the word.
_FLAGS = {
    "rule.start": "--from",
    "rule.end": "--until",
    "retry.base": "--retry-base",
    "retry.cap": "--retry-cap",
    "retry.within": "--retry-within",
}
_DURATIONS = (
    *("rule.window", "rule.jitter", "retry.base", "retry.cap", "retry.within"),
    *("timeout", "deadline", "catch_up_window", "expect_success_within"),
)


def command_of(name: str, words: Mapping[str, Any], *, act: str) -> str:
    """The command that makes a schedule have these words; ``act`` is "create" or "upsert"."""
    expression = words["expression"]
    first, *also = [expression] if isinstance(expression, str) else expression
    parts = ["quarterjack", "schedules", act, name, str(words["job"]), first]
    for text in also:
        parts += ["--also", text]
    for word, value in words.items():
        parts += _options(word, value)
    return shlex.join(parts)


def file_of(name: str, words: Mapping[str, Any], managed_by: str | None = None) -> str:
    """The file that `quarterjack apply` takes."""
    return write([DeclarationFile(declarations=(), managed_by=managed_by, words={name: words})])


def _options(word: str, value: Any) -> Iterator[str]:
    if word in ("job", "expression") or (word == "timezone" and value == "UTC"):
        return
    if word == "payload":
        yield from ("--payload", compact(value))
    elif word == "tags":
        for key, text in value.items():
            yield from ("--tag", f"{key}={text}")
    elif word in ("rule", "retry"):
        for below, inner in value.items():
            yield from _options(f"{word}.{below}", inner)
    elif isinstance(value, bool):
        yield f"--{'' if value else 'no-'}{_flag(word).removeprefix('--')}"
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from (_flag(word), str(one))
    else:
        yield from (_flag(word), _seconds(value) if word in _DURATIONS else str(value))


def _flag(word: str) -> str:
    return _FLAGS.get(word) or "--" + word.rpartition(".")[2].replace("_", "-")


def _seconds(value: float) -> str:
    return repr(value).removesuffix(".0") + "s"
