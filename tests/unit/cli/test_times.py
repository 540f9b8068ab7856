"""Times and durations as one types them: what they mean, in which zone, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.cli.app import run, whole
from quarterjack.cli.installation.audit import _date
from quarterjack.cli.moments import duration_words, is_ago, is_relative, needs_zone, parse_duration, read_time
from quarterjack.cli.typed import Duration
from quarterjack.errors import InvalidInput

from tests.support.scenes.world import World

NOW = datetime(2036, 5, 4, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> World:
    """Commands work on an installation in memory, with a daily schedule in Berlin."""
    world = World()
    world.scheduler.create_schedule("s", "note", "0 9 * * *", timezone="Europe/Berlin")
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", world.scheduler)
    monkeypatch.setattr("quarterjack.cli.typed.utc_now", world.now)
    return world


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("now", NOW),
            ("-45s", NOW - timedelta(seconds=45)),
            ("-3h", NOW - timedelta(hours=3)),
            ("-2w", NOW - timedelta(weeks=2)),
            ("+1h30m", NOW + timedelta(minutes=90)),
            ("-1.5d", NOW - timedelta(hours=36)),
            ("Today", datetime(2036, 5, 4, tzinfo=BERLIN)),
            ("yesterday", datetime(2036, 5, 3, tzinfo=BERLIN)),
            ("tomorrow 09:00", datetime(2036, 5, 5, 9, tzinfo=BERLIN)),
            ("tomorrow 9:00:30", datetime(2036, 5, 5, 9, 0, 30, tzinfo=BERLIN)),
            ("2036-05-04T14:00:00+02:00", datetime(2036, 5, 4, 12, tzinfo=UTC)),
        ],
    )
    def test_may_be_relative(self, text: str, moment: datetime) -> None:
        assert read_time(text, "--since", NOW, zone=BERLIN).moment == moment

    @pytest.mark.parametrize("text", ["-3\u017f", "ye\u017fterday", "-\u0663d", "tomorrow \u0660\u0669:00"])
    def test_letters_and_digits_are_those_of_ascii(self, text: str) -> None:
        """A long s is an s to a regular expression that ignores case, and an Arabic three is a digit."""
        with pytest.raises(InvalidInput, match="is not a date and time"):
            read_time(text, "--since", NOW, zone=BERLIN)
        assert parse_duration(text.lstrip("-")) is None

    @pytest.mark.parametrize(("unsigned", "hours"), [("-", -3), ("+", 3)])
    def test_a_duration_without_a_sign_points_as_its_option_does(self, unsigned: str, hours: int) -> None:
        assert read_time("3h", "--since", NOW, unsigned=unsigned).moment == NOW + timedelta(hours=hours)

    def test_a_day_is_that_of_its_zone(self) -> None:
        late = datetime(2036, 5, 4, 23, tzinfo=UTC)  # the next day in Berlin
        assert read_time("today", "--since", late, zone=BERLIN).moment == datetime(2036, 5, 5, tzinfo=BERLIN)
        assert read_time("today", "--since", late, zone=UTC).moment == datetime(2036, 5, 4, tzinfo=UTC)

    def test_a_skipped_hour_is_put_forward_and_of_a_repeated_one_the_first_is_meant(self) -> None:
        spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
        skipped = read_time("tomorrow 02:30", "--at", spring, zone=BERLIN).moment
        assert skipped.isoformat() == "2026-03-29T03:30:00+02:00"
        repeated = read_time("tomorrow 02:30", "--at", autumn, zone=BERLIN).moment
        assert repeated.isoformat() == "2026-10-25T02:30:00+02:00"

    def test_without_an_offset_it_takes_a_zone_by_name(self) -> None:
        found = read_time("2036-05-04 14:00", "--at", NOW, zone=BERLIN, is_named=True)
        assert (found.moment, found.in_zone) == (NOW, True)
        for text, example in (("2036-05-04", "2036-05-04T00:00:00Z"), ("2036-05-04 14:00", "2036-05-04 14:00Z")):
            with pytest.raises(InvalidInput, match=rf"has no time zone; write e.g. {example}, or give --zone"):
                read_time(text, "--at", NOW, zone=BERLIN)
            assert read_time(example, "--at", NOW).moment.tzinfo is UTC

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("3h", "may be before or after now; write -3h for a time ago, or \\+3h"),
            ("-3y", "is not a date and time; write e.g. 2026-12-24T18:00:00Z, or now, -3d"),
            ("18:00", "name its day, as in 'today 18:00'"),
            ("tomorrow 25:00", "is not a time of day; write e.g. 'tomorrow 09:00'"),
            ("-999999w", "is too far from now"),
            ("", "is not a date and time"),
        ],
    )
    def test_others_are_refused_with_a_remedy(self, text: str, problem: str) -> None:
        with pytest.raises(InvalidInput, match=problem):
            read_time(text, "--since", NOW)

    @given(st.text(max_size=20) | st.from_regex(r"[-+]?[0-9]{1,14}[smhdw]?", fullmatch=True))
    def test_any_text_is_a_time_or_refused(self, text: str) -> None:
        assert is_relative(text) or not is_ago(text)
        try:
            found = read_time(text, "--at", NOW, zone=BERLIN, is_named=True, unsigned="-")
        except InvalidInput:
            return
        assert found.moment.tzinfo is not None
        assert found.in_zone == needs_zone(text)


class TestDurations:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("90", 90), ("1.5", 1.5), ("5m", 300), ("1h30m", 5_400), ("2D", 172_800), ("1w", 604_800), ("250ms", 0.25)],
    )
    def test_have_units(self, text: str, seconds: float) -> None:
        assert parse_duration(text) == seconds
        assert parse_duration(f"-{text}") == -seconds

    @pytest.mark.parametrize("text", ["", "m", "5x", "5 m", "nan", "inf", "1e3", "+5m", "5m-1s", "1.m", "9" * 13])
    def test_nothing_else_is_one(self, text: str) -> None:
        assert parse_duration(text) is None

    @given(st.integers(1, 10**9))
    def test_are_written_as_they_are_read(self, seconds: int) -> None:
        assert parse_duration(duration_words(seconds)) == pytest.approx(seconds, rel=1e-5)

    @pytest.mark.parametrize(
        ("kind", "text", "problem"),
        [
            (Duration(), "5x", "--x='5x': is not a duration; write seconds, or e.g. 90s, 5m"),
            (Duration(least=1), "500ms", "is too short; give 1s or more"),
            (Duration(most=120), "3m", "is too long; give 2m or less"),
            (Duration(whole=True), "1.5", "has a fraction of a second"),
        ],
    )
    def test_others_are_refused_with_a_remedy(self, kind: Duration, text: str, problem: str) -> None:
        with pytest.raises(InvalidInput, match=problem):
            kind.read(text, "--x")


class TestCommands:
    def test_arguments_may_be_times_ago(self, memory: World, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["schedules", "backfill", "s", "-3d", "-1d", "--dry-run", "--current", "--json"]) == 0
        assert '"total": 2' in capsys.readouterr().out

    def test_a_wall_time_is_in_the_zone_of_the_schedule_and_it_is_said(
        self, memory: World, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["schedules", "pause", "s", "--until", "tomorrow 09:00"]) == 0
        said = capsys.readouterr()
        assert "--until is " in said.err
        assert "(Europe/Berlin, the zone of s)" in said.err
        resumes = memory.scheduler.get_schedule("s").resume_at
        assert resumes is not None
        assert resumes.astimezone(BERLIN).hour == 9

    @pytest.mark.parametrize(
        ("words", "zone"),
        [
            (("--zone", "Asia/Tokyo"), "(Asia/Tokyo)"),
            (("--schedule", "s"), "(Europe/Berlin, the zone of s)"),
            (("--schedule", "gone"), "(the zone of this machine)"),
            ((), "(the zone of this machine)"),
        ],
    )
    def test_whose_zone_it_is(
        self, memory: World, words: tuple[str, ...], zone: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["dead", "list", "--since", "yesterday 09:00", *words]) == 0
        assert zone in capsys.readouterr().err

    def test_an_unknown_zone_is_refused_by_its_option(self, memory: World, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["dead", "list", "--since", "yesterday", "--zone", "Mars"]) == 1
        assert capsys.readouterr().err.startswith("error: --zone='Mars'")

    def test_days_of_statistics_are_in_utc(self, memory: World, capsys: pytest.CaptureFixture[str]) -> None:
        run(["stats", "--since", "yesterday"])
        assert "(UTC)" in capsys.readouterr().err

    def test_a_delay_and_a_time_limit_have_units(self, memory: World, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["submit", "note", "--delay", "5m"]) == 0
        assert run(["schedules", "create", "t", "note", "0 9 * * *", "--timeout", "2m", "--window", "10m"]) == 0
        definition = memory.scheduler.describe_schedule("t").definition
        assert (definition.policies["timeout"], definition.rule.window) == (120, 600)
        assert re.search(r"due +2026-05-04 12:05:00Z", capsys.readouterr().out)

    def test_a_day_may_be_relative(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("quarterjack.cli.installation.audit.utc_now", lambda: NOW)
        words = ("today", "yesterday", "-2d", "2d", "2036-05-01")
        assert [_date(word).day for word in words] == [4, 3, 2, 2, 1]

    def test_an_hour_ago_is_no_help(self, memory: World, capsys: pytest.CaptureFixture[str]) -> None:
        """Its last letter is an option, elsewhere."""
        memory.wait(3 * 86_400)
        assert run(["schedules", "backfill", "s", "-1d", "-3h", "--dry-run"]) == 0
        assert "Usage" not in capsys.readouterr().out

    def test_a_duration_may_not_be_seconds_alone_nor_a_time_in_a_form_of_its_own(self) -> None:
        numbers = {word for word, shown in _parameters() if "<float" in shown or "<datetime" in shown}
        assert numbers == {"--rate", "--share"}
        named = {"--since", "--until", "--after", "--before", "--at", "--from"}
        assert {word for word, shown in _parameters() if word in named and "TIME" not in shown} == set()


def _parameters() -> Iterator[tuple[str, str]]:
    """Each option of every command, and how the help shows it."""

    def below(command: Any) -> Iterator[tuple[str, str]]:
        context = command.context_class(command, info_name="x")  # parsing would fix its help options for other tests
        for param in command.params:
            shown = param.get_help_record(context)
            if param.param_type_name == "option" and shown is not None:
                yield param.opts[0], shown[0]
        for child in getattr(command, "commands", {}).values():
            yield from below(child)

    yield from below(whole())
