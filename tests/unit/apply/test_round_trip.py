"""Whatever can be declared survives: into an installation, out by ``export``, through a file, and back without a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack import ScheduleState
from quarterjack.apply.document import DeclarationFile, read, write
from quarterjack.apply.fields import read_words
from quarterjack.errors import InvalidInput

from tests.support.scenes.world import World

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[A-Za-z0-9._:@/-]{1,12}", fullmatch=True)
seconds = st.integers(1, 86_400) | st.floats(1, 86_400, allow_nan=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
crons = st.sampled_from(["0 9 * * 1-5", "*/5 * * * *", "H H * * *", "@daily", "cron(0 9 ? * 2-6 *)", "30 2 L * *"])
expressions = crons | st.sampled_from(
    ["rate(5 minutes)", "rate(1 hour, from=2030-01-01T00:00:00Z)", "FREQ=DAILY;BYHOUR=9"]
)
rules = st.fixed_dictionaries(
    {},
    optional={
        "gap": st.sampled_from(["next_valid", "skip", "shift"]),
        "repeated": st.sampled_from(["first", "second", "both"]),
        "exclude": st.lists(
            st.sampled_from(["2026-12-24", "2026-12-24/2027-01-01", "weekends", "* * 1 1 *"]), max_size=2
        ),
        "start": st.sampled_from(["2026-05-05T00:00:00Z", "2027-01-01T12:30:00.250Z"]),
        "end": st.just("2040-01-01T00:00:00Z"),
        "window": st.integers(0, 86_400),
        "max_fires": st.integers(1, 20),
    },
)
retries = st.fixed_dictionaries(
    {},
    optional={
        "max_attempts": st.integers(1, 1000),
        "base": seconds,
        "cap": seconds,
        "backoff": st.sampled_from(["exponential", "linear", "fixed"]),
        "jitter": st.floats(0, 1),
        "within": seconds,
        "retry_on": st.lists(st.sampled_from(["TimeoutError", "OSError"]), max_size=2),
        "never_on": st.lists(st.just("ValueError"), max_size=1),
        "always_on": st.lists(st.just("JSONDecodeError"), max_size=1),
        "by_status": st.booleans(),
    },
)
declarations = st.fixed_dictionaries(
    {"job": st.just("note"), "expression": expressions | st.lists(expressions, min_size=1, max_size=3)},
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
        "rule": rules,
        "payload": json_values,
        "description": texts,
        "tags": st.dictionaries(texts.filter(bool), texts, max_size=3),
        "paused": st.booleans(),
        "delivery": st.sampled_from(["at_least_once", "exactly_once", "at_most_once"]),
        "start": st.sampled_from(["prompt", "exact"]),
        "retry": retries,
        "timeout": seconds,
        "deadline": seconds,
        "catch_up": st.sampled_from(["all", "latest", "none"]),
        "catch_up_window": seconds,
        "automatic_backfill": st.booleans(),
        "overlap": st.sampled_from(["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]),
        "buffer": st.integers(1, 1000),
        "pause_on_failure": st.integers(1, 1000),
        "delete_after_completion": st.booleans(),
        "shadow": st.booleans(),
        "on_failure": st.sampled_from(["job:note", "arn:aws:sns:eu-central-1:123456789012:alarms"]),
        "expect_success_within": st.floats(60, 86_400),
        "alert_if_running_longer_than": st.floats(60, 86_400),
        "must_end_by": st.floats(60, 86_400) | st.sampled_from(["00:00", "06:00", "22:30"]),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(names, declarations, min_size=1, max_size=3), st.none() | names)
def test_what_is_exported_is_taken_back_unchanged(wanted: Mapping[str, Mapping[str, Any]], owner: str | None) -> None:
    world = World()
    declared = []
    for name, words in wanted.items():
        try:
            declared.append(read_words(name, words, f"here:{name}"))
        except InvalidInput:
            continue  # a rule that is never due, or a word that does not go with another
    plan = world.scheduler.compare_declared(declared, managed_by=owner)
    failed = world.scheduler.carry_out(plan).failed
    assert all("nothing is due" in why for why in failed.values()), failed
    there = [one for one in declared if one.name not in failed]
    found = world.scheduler.export_declared()
    text = write(DeclarationFile(declarations=(), managed_by=who, words=words) for who, words in found.items())
    if not there:
        return
    (document,) = read(text, "export.yaml")
    again = world.scheduler.compare_declared(document.declarations, managed_by=document.managed_by)
    assert {change.name: (change.act, dict(change.fields)) for change in again.changes} == {
        one.name: ("unchanged", {}) for one in there
    }
    paused = {head.name for head in world.memory.heads() if head.state is ScheduleState.PAUSED}
    assert paused == {one.name for one in there if one.paused}
    assert world.scheduler.export_declared() == found
