"""Several logs as one list: every line once, in order of time, whatever the bounds of single reads."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from quarterjack.errors import InvalidInput
from quarterjack.ports.run_logs import LogLineRow, RunLogsQuery
from quarterjack.run_logs.merge import CUT, TEXT, LogSource, fields_of, read_merged, shortened

from tests.support.run_logs import RUN, ShortLog

END = 100


def query(limit: int, position: str | None = None) -> RunLogsQuery:
    return RunLogsQuery(run_id=RUN, begin=0, end=END, limit=limit, position=position)


def read_all(sources: list[LogSource], limit: int) -> list[LogLineRow]:
    """All pages, one after the other."""
    found, position = list[LogLineRow](), None
    for _ in range(1_000):
        page = read_merged(query(limit, position), sources)
        assert len(page.lines) <= limit
        assert all(line.at <= page.searched_to for line in page.lines)
        found += page.lines
        if page.position is None:
            return found
        assert page.position != position, "a page that finds nothing gets further"
        position = page.position
    raise AssertionError("it does not come to an end")


LINES = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=25)


@given(st.lists(st.tuples(LINES, st.integers(1, 8)), min_size=1, max_size=4), st.integers(1, 6))
@example([([(1, False), (1, False), (1, True)], 2), ([(0, False), (1, True)], 1)], 1)
def test_every_line_comes_once_and_in_order(logs: list[tuple[list[tuple[int, bool]], int]], limit: int) -> None:
    sources: list[LogSource] = []
    wanted = []
    for number, (lines, step) in enumerate(logs):
        name = f"log-{number}"
        ours = [(at, f"{name}:{place}" if is_ours else None) for place, (at, is_ours) in enumerate(sorted(lines))]
        sources.append(ShortLog(name, ours, step))
        wanted += [(at, number, place, text) for place, (at, text) in enumerate(ours) if text is not None]
    found = [(line.at, line.fields["event"]) for line in read_all(sources, limit)]
    assert found == [(at, text) for at, _, _, text in sorted(wanted)]


def test_a_log_that_is_not_there_is_no_source() -> None:
    class Missing:
        name = "missing"

        def read(self, *asked: object) -> None:
            del asked

    page = read_merged(query(10), [Missing(), ShortLog("there", [(1, "x")], 9)])
    assert page.sources == ["there"]
    assert page.position is None
    assert page.searched_to == END


def test_nothing_is_answered_that_a_slower_log_may_come_before() -> None:
    slow, fast = ShortLog("slow", [(1, None), (2, None), (9, "late")], 1), ShortLog("fast", [(5, "x")], 9)
    first = read_merged(query(10), [slow, fast])
    assert not first.lines
    assert first.searched_to == 1
    assert [line.fields["event"] for line in read_all([slow, fast], 10)] == ["x", "late"]


def test_a_page_ends_before_it_is_too_heavy() -> None:
    heavy = ShortLog("heavy", [(n, "x" * 400_000) for n in range(4)], 9)
    assert len(read_merged(query(10), [heavy]).lines) == 2
    assert len(read_all([heavy], 10)) == 4


@pytest.mark.parametrize("position", ["", "[]", "[1]", '["x", {}, {}]', "[1, 2, 3]", "{}"])
def test_a_position_that_is_none_is_refused(position: str) -> None:
    with pytest.raises(InvalidInput, match=r"cursor.*pass the cursor of the page before"):
        read_merged(query(10, position), [])


def test_only_lines_of_the_run_are_its_lines() -> None:
    assert fields_of(f'{{"run_id": "{RUN}", "event": "x"}}', RUN) == {"run_id": RUN, "event": "x"}
    for other in (
        f'{{"run_id": "{RUN}2"}}',
        f"printed {RUN}",
        f'["{RUN}"]',
        f'{{"other": "{RUN}"}}',
        "{" * 10_000 + RUN,
    ):
        assert fields_of(other, RUN) is None, other


def test_long_values_are_cut() -> None:
    found = shortened({"event": "e" * 20_000, "traceback": "t" * 20_000 + "the cause", "data": ["d"] * 9_000, "n": 7})
    assert found["event"] == "e" * TEXT + CUT
    assert found["traceback"].endswith("the cause")
    assert found["traceback"].startswith(CUT)
    assert isinstance(found["data"], str)
    assert found["n"] == 7
    assert len(shortened({f"f{n}": n for n in range(1_000)})) == 50
