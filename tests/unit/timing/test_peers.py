"""The same questions put to independent implementations: cronsim and croniter for cron, dateutil for recurrence rules.

Where one of them is known to differ, the case is kept away from it here and stands in ``test_disagreements``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice

import pytest
from croniter import croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from quarterjack.errors import ExpressionError
from quarterjack.timing import next_fires
from quarterjack.timing.expressions import read
from quarterjack.timing.zones import zone as zones

from tests.support.timing.oracle import Cron, changes, crons, plain_texts, recurrence_rules

CHANGES = changes(1980, 2037)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1))  # noqa: DTZ001 naive wall time, on purpose

DEGENERATE = re.compile(r"\b(\d+)-\1\b")  # `3-3`, which both read as a longer range


def ours(expression: str, zone: str, after: datetime, count: int) -> list[datetime]:
    try:
        return [fire.astimezone(UTC) for fire in next_fires(expression, timezone=zone, after=after, count=count)]
    except ExpressionError as error:
        assume("never occurs" not in error.problem)
        raise


@cache
def changes_over_midnight(zone: str) -> bool:
    """Whether a midnight was ever skipped or shown twice: there cronsim answers with one that is not, or is over."""
    spans = [
        sorted((instant + before, instant + after)) for instant, before, after in zones.table(zone).changes(0, 2**31)
    ]
    return any(-(-low // 86400) * 86400 < high for low, high in spans)


def check_croniter(cron: Cron, after: datetime) -> None:
    starred = {cron.day.text[0], cron.weekday.text[0]} & {"*"}
    assume(not starred or "*" in (cron.day.text, cron.weekday.text))  # croniter: `*/2` does not make both necessary
    found = ours(cron.text, "UTC", after.replace(tzinfo=UTC), 4)
    assume(not DEGENERATE.search(cron.text))
    peer = croniter(cron.text, after)
    assert [fire.replace(tzinfo=None) for fire in found] == [peer.get_next(datetime) for _ in range(4)]


def check_cronsim(cron: Cron, zone: str, instant: int, hours: int) -> None:
    assume(not DEGENERATE.search(cron.text))
    starred = cron.minute.text[0] == "*" or cron.hour.text[0] == "*"
    assume(cron.fixed is not starred)  # cronsim, like Debian, takes `1-5/2` for a set time
    after = datetime.fromtimestamp(instant, UTC) + timedelta(hours=hours)
    assume(cron.fixed or not changes_over_midnight(zone))
    # Asked from within the second pass cronsim answers with instants of the first, which are over.
    assume(not cron.fixed or zones.table(zone).showing(int(after.timestamp())) != "second")
    found = ours(cron.text, zone, after, 6)
    peer = CronSim(cron.text, after.astimezone(zones.packaged(zone)))
    assert found == [fire.astimezone(UTC) for fire in islice(peer, 6)]


def check_dateutil(rule: str, start: datetime) -> None:
    text = f"DTSTART:{start:%Y%m%dT%H%M%S}\nRRULE:{rule}"
    try:
        found = next_fires(text, after=start.replace(tzinfo=UTC) - timedelta(seconds=1), count=6)
    except ExpressionError as error:
        assert "no day up to the year" in error.problem or "steps apart" in error.problem  # noqa: PT017
        return
    if found:  # where ours ends, dateutil spins or raises: ask it for no more than there is
        assert found == [fire.replace(tzinfo=UTC) for fire in islice(rrulestr(text), len(found))]


@settings(max_examples=200, deadline=None, derandomize=True)  # the proofs explore: a new quirk of a peer fails no build
@given(crons, moments)
def test_croniter_agrees_on_naive_time(cron: Cron, after: datetime) -> None:
    check_croniter(cron, after)


def check_portable(text: str) -> None:
    try:
        expression = read(text)
    except ExpressionError:
        reject()
    assert croniter.is_valid(text)
    expression.check_portable()


@settings(max_examples=300, deadline=None, derandomize=True)  # 8 s for 500 on a loaded machine: croniter is slow
@given(plain_texts)
def test_croniter_reads_what_our_parser_takes(text: str) -> None:
    check_portable(text)


@settings(max_examples=200, deadline=None, derandomize=True)  # the proofs explore: a new quirk of a peer fails no build
@given(crons, st.sampled_from(CHANGES), st.integers(-30, 4))
def test_cronsim_agrees_around_changes_of_the_clocks(cron: Cron, change: tuple[str, int], hours: int) -> None:
    check_cronsim(cron, *change, hours)


@settings(max_examples=200, deadline=None, derandomize=True)  # the proofs explore: a new quirk of a peer fails no build
@given(recurrence_rules(), moments)
def test_dateutil_agrees_on_recurrence_rules(rule: str, start: datetime) -> None:
    check_dateutil(rule, start.replace(microsecond=0))


@pytest.mark.proof
@settings(max_examples=1_500, deadline=None)
@given(crons, moments)
def test_croniter_at_length(cron: Cron, after: datetime) -> None:
    check_croniter(cron, after)


@pytest.mark.proof
@settings(max_examples=5_000, deadline=None)
@given(plain_texts)
def test_croniter_reads_what_our_parser_takes_at_length(text: str) -> None:
    check_portable(text)


@pytest.mark.proof
@settings(max_examples=1_500, deadline=None)
@given(crons, st.sampled_from(CHANGES), st.integers(-30, 4))
def test_cronsim_at_length(cron: Cron, change: tuple[str, int], hours: int) -> None:
    check_cronsim(cron, *change, hours)


@pytest.mark.proof
@settings(max_examples=1_500, deadline=None)
@given(recurrence_rules(), moments)
def test_dateutil_at_length(rule: str, start: datetime) -> None:
    check_dateutil(rule, start.replace(microsecond=0))
