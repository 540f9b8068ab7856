"""Checks of the SDK's arguments: each error names the field, the value and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from quarterjack.domain.names import check_whole, is_text
from quarterjack.domain.payload import (
    MAX_DEPTH,
    MAX_RUN_TAGS,
    DuplicateKey,
    TypedPayload,
    check_keys,
    has_half_pair,
    is_too_deep,
    json_text,
    parse_json,
    size,
    text_of_tags,
)
from quarterjack.domain.times import DAY, SECOND, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.payload_types import jsonable
from quarterjack.timing import Rule

MAX_PAYLOAD = 256 * 1024  # bytes of JSON in UTF-8
MAX_DESCRIPTION = 1_000  # characters
MAX_TAGS = 50
MAX_TAG = 200  # characters of a key or value
MAX_RATE = 1_000.0  # a second
FURTHEST = 100 * 365 * DAY  # ms ahead


def payload_text(payload: Any, kind: TypedPayload | None = None) -> str:
    """A payload as canonical JSON: keys sorted, so that equal payloads are equal texts. Raises InvalidInput.

    Dataclasses and Pydantic models in it become dicts; ``kind``, the type of the job's payload, says what else has a form in JSON.
    """
    default = jsonable if kind is None else kind.jsonable
    try:
        text = json_text(payload, default=default)
        check_keys(payload, "payload")
        text = json_text(parse_json(text), sort_keys=True)
        too_deep = is_too_deep(text)
    except RecursionError:
        too_deep = True
    except DuplicateKey as error:
        raise InvalidInput("payload", payload, f"is not JSON ({error})", "write each key once") from None
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        remedy = "use dicts, lists, text, finite numbers, booleans and None"
        raise InvalidInput("payload", payload, f"is not JSON ({error})", remedy) from None
    if too_deep:
        problem = f"has lists and dicts nested more than {MAX_DEPTH} levels deep"
        raise InvalidInput("payload", payload, problem, "flatten it, or store it and pass its address")
    if has_half_pair(text):
        remedy = "decode the text as UTF-16 or UTF-8 first"
        raise InvalidInput("payload", payload, "has half of a surrogate pair", remedy)
    if size(text) > MAX_PAYLOAD:
        remedy = f"keep it within {MAX_PAYLOAD:,}, or store it and pass its address"
        raise InvalidInput("payload", payload, f"has {size(text):,} bytes of JSON", remedy)
    return text


def rule_of(expression: str | Sequence[str] | Rule, timezone: str | None) -> Rule:
    """A rule from a user's arguments. Raises InvalidInput, also for a time zone beside a Rule, which has its own."""
    if not isinstance(expression, Rule):
        return Rule.of(expression, timezone="UTC" if timezone is None else timezone)
    if timezone is not None:
        problem = "was given beside a Rule, which has its own"
        raise InvalidInput("timezone", timezone, problem, "pass Rule(timezone=...)")
    return expression


def due_time(run_at: datetime | None, delay: float | timedelta | None, now: int, field: str = "run_at") -> int:
    """The due time of a one-off (UTC ms): ``run_at``, ``delay`` (seconds or timedelta) from now, or now. Raises InvalidInput.

    ``field`` is the name of the first argument.
    """
    if run_at is not None and delay is not None:
        raise InvalidInput("delay", delay, f"was given together with {field}", "give one of the two")
    if run_at is not None:
        return _not_too_far(field, run_at, to_ms(run_at, field), now)
    if delay is None:
        return now
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise InvalidInput("delay", delay, "is not a length of time", "give seconds >= 0 or a timedelta")
    return _not_too_far("delay", delay, now + int(min(seconds * SECOND, 2 * FURTHEST)), now)


def end_time(until: datetime | None, now: int) -> int | None:
    """The end of a pause (UTC ms); None if its owner must resume. Raises InvalidInput."""
    if until is None:
        return None
    end = to_ms(until, "until")
    if end <= now:
        remedy = "give a moment to come, or leave it out to pause for good"
        raise InvalidInput("until", until, "has passed already", remedy)
    return _not_too_far("until", until, end, now)


def _not_too_far(field: str, value: object, due: int, now: int) -> int:
    if not now - FURTHEST <= due <= now + FURTHEST:
        raise InvalidInput(field, value, "is more than 100 years away", "choose a time within a century")
    return due


def checked_text(field: str, value: object, limit: int) -> str:
    if not is_text(value, limit):
        remedy = f"use a str of at most {limit:,} characters of Unicode"
        raise InvalidInput(field, value, "is not a text of fitting length", remedy)
    return str(value)


def checked_tags(tags: object) -> dict[str, str]:
    if not isinstance(tags, Mapping) or len(tags) > MAX_TAGS:
        raise InvalidInput("tags", tags, "is not a dict of fitting size", f"use at most {MAX_TAGS} pairs of texts")
    for key, value in tags.items():
        if not key or not is_text(key, MAX_TAG) or not is_text(value, MAX_TAG):
            remedy = f"use str of 1 to {MAX_TAG} characters"
            raise InvalidInput("tags", {key: value}, "is not a pair of short texts", remedy)
    return dict(tags)


def checked_run_tags(tags: object) -> dict[str, str]:
    """Tags of a run. Raises InvalidInput."""
    found = checked_tags(tags)
    length = size(text_of_tags(found) or "")
    if length > MAX_RUN_TAGS:
        problem = f"take {length:,} bytes as JSON"
        raise InvalidInput("tags", found, problem, f"use {MAX_RUN_TAGS:,} bytes at most, or the payload")
    return found


def checked_limit(limit: object, most: int = 1_000, field: str = "limit") -> int:
    return check_whole(field, limit, 1, most)


def checked_revision(number: object) -> int | None:
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    raise InvalidInput(
        "expected_revision", number, "is not the number of a revision", "pass Schedule.revision, or the Schedule"
    )


def checked_rate(rate: object, what: str) -> float:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate <= MAX_RATE:
        raise InvalidInput("rate", rate, f"is not a number of {what} a second", f"use a number up to {MAX_RATE:,.0f}")
    return float(rate)
