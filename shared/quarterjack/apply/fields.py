"""The words of a declaration: the fields of a schedule in a file, which a plan compares.

    job, expression, timezone, rule: {window …}, payload, description, tags, paused, delivery, start, retry: {…}, timeout, deadline,
    and the options queue, catch_up, overlap …

A field with its default value is left out, so that equal declarations have equal words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from quarterjack.declare import declaration
from quarterjack.domain.names import PIPELINE, integral
from quarterjack.domain.options import Options
from quarterjack.domain.policies import Overrides, Retry
from quarterjack.domain.policies.flow import Flow
from quarterjack.domain.schedule import Declaration, Definition
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput
from quarterjack.timing import STORED, Rule
from quarterjack.timing.expressions import MANUALLY

DATES = ("start", "end")  # words of a rule with a date and time
RULE = tuple(f.name for f in fields(Rule) if f.init and f.name not in ("expression", "timezone", "also", *STORED))
RETRY = tuple(f.name for f in fields(Retry))
FLOW = tuple(f.name for f in fields(Flow))
OPTIONS = tuple(f.name for f in fields(Options))
OVERRIDES = tuple(f.name for f in fields(Overrides))
ALL = ("job", "expression", "timezone", "rule", "payload", "description", "tags", "paused", *OVERRIDES, *OPTIONS)


def words_of(
    definition: Definition,
    payload: Any,
    *,
    description: str = "",
    tags: Mapping[str, str] | None = None,
    paused: bool | None = None,
) -> dict[str, Any]:
    """The words of a definition, in the order of ALL."""
    rule = definition.rule.as_dict()
    texts = [definition.rule.expression, *definition.rule.also]
    rest = {name: rule[name] for name in RULE if name in rule}
    for name in (name for name in DATES if name in rest):
        precision = "milliseconds" if rest[name] % 1000 else "seconds"
        rest[name] = from_ms(rest[name]).isoformat(timespec=precision).replace("+00:00", "Z")
    found = {
        "job": None if definition.options.tasks is not None else definition.job,
        "expression": texts if len(texts) > 1 else texts[0],
        "timezone": rule.get("timezone", "UTC"),
        "rule": rest or None,
        "payload": payload,
        "description": description or None,
        "tags": dict(sorted((tags or {}).items())) or None,
        "paused": paused,
        **definition.overrides.as_dict(),
        **definition.options.as_dict(),
    }
    return {name: found[name] for name in ALL if found.get(name) is not None}


def read_words(name: str, words: Mapping[str, Any], place: str) -> Declaration:
    """The declaration with these words. Raises InvalidInput with the path of the word: ``rule.window``."""
    _known(words, ALL)
    if words.get("tasks") is not None:
        given = {word: value for word, value in words.items() if value is not None or word not in ("job", "expression")}
        words = {"job": f"{PIPELINE}{name}", "expression": MANUALLY, **given}
    for needed in ("job", "expression"):
        if words.get(needed) is None:
            remedy = (
                f"write the name of a job, and when it runs: expression: 0 2 * * *, or {MANUALLY} for triggers alone"
            )
            raise InvalidInput(needed, None, "is missing", remedy)
    if not isinstance(words["job"], str):
        raise InvalidInput("job", words["job"], "is not a text", "write its name")
    given = {
        word: value
        for word, value in words.items()
        if word not in ("job", "expression", "timezone", "rule") and (value is not None or word == "payload")
    }
    if "retry" in given:
        with _below("retry"):
            given["retry"] = Retry(**{word: integral(value) for word, value in _known(given["retry"], RETRY).items()})
    if "flow" in given:
        with _below("flow"):
            given["flow"] = Flow(**{word: integral(value) for word, value in _known(given["flow"], FLOW).items()})
    return declaration(place=place, name=name, job=words["job"], expression=_rule(words), **given)


def _rule(words: Mapping[str, Any]) -> Rule:
    expression, timezone = words["expression"], words.get("timezone")
    with _below("rule"):
        given = {} if words.get("rule") is None else words["rule"]
        rest = {name: value for name, value in _known(given, RULE).items() if value is not None}
        rest |= {name: _milliseconds(name, rest[name]) for name in DATES if name in rest}
    first, *also = expression if isinstance(expression, list) and expression else [expression]
    plain = Rule(expression=first, timezone="UTC" if timezone is None else timezone, also=tuple(also))
    with _below("rule"):
        return plain if not rest else Rule.from_dict({**plain.as_dict(), **rest})


def _milliseconds(name: str, value: object) -> int:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInput(name, value, "is not a date and time with an offset", "write e.g. 2026-12-24T18:00:00Z")
    return int(moment.timestamp() * 1000)


def _known(words: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(words, Mapping):
        raise InvalidInput("", words, "is not a mapping", f"write some of {', '.join(names)} below it")
    for word in words:
        if word not in names:
            near = get_close_matches(str(word), names, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(names)}"
            # Without its value, which may be a payload, or a part of one at the wrong depth, with secrets.
            raise InvalidInput(str(word), "…", "is not known here", remedy)
    return words


@contextmanager
def _below(path: str) -> Iterator[None]:
    """InvalidInput that is raised in the block gets ``path`` before its field."""
    try:
        yield
    except InvalidInput as error:
        raise error.about(f"{path}.{error.field}".removesuffix(".")) from None
