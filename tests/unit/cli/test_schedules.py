"""``quarterjack schedules …`` as one types it: every word of the SDK, and what is done to one schedule."""

from __future__ import annotations

import inspect
import re

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.cli.schedules.options import WORDS, parse_options
from quarterjack.errors import InvalidInput
from quarterjack.sdk.requests import ScheduleWords
from quarterjack.timing import STORED, Rule

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud

CREATE = ("schedules", "create", "s", "j", "0 9 * * *")


@pytest.fixture
def owner(local_settings: Settings) -> Scheduler:
    return Scheduler(settings=local_settings)


class TestWords:
    """The one table of options."""

    def test_every_keyword_of_the_sdk_has_its_option(self) -> None:
        ours = {word.name for word in WORDS} | {"name", "job", "expression", "client_token"}
        keywords = set(inspect.signature(Scheduler.create_schedule).parameters) - {"self", "words"}
        of_files = {"tasks", "on_task_failure"}  # a pipeline is declared in a file or in code
        assert keywords | (set(ScheduleWords.__annotations__) - {"retry", "flow"} - of_files) <= ours

    def test_every_field_of_a_rule_has_one(self) -> None:
        ours = {word.name for word in WORDS} | {"start", "end"}
        assert {f for f in Rule.__dataclass_fields__ if f not in ("expression", "plan", *STORED)} <= ours

    def test_what_was_not_given_is_not_said(self) -> None:
        said = parse_options({"payload": None, "tags": [], "shadow": False, "timeout": 0.0, "gap": None})
        assert (said.words, said.rule) == ({"shadow": False, "timeout": 0.0}, {})

    def test_what_always_has_a_value_cannot_be_unset(self) -> None:
        assert parse_options({}, unset=["max-running", "queue"]).words == {"max_running": None, "queue": None}
        with pytest.raises(InvalidInput, match="always has a value"):
            parse_options({}, unset=["catch_up"])


def test_created_with_a_rule_policies_and_options(said: Say, owner: Scheduler) -> None:
    times = ("--timezone", "Europe/Berlin", "--exclude", "weekends", "--max-fires", "3", "--also", "0 12 * * *")
    span = ("--from", "2090-01-01T00:00:00Z", "--window", "60")
    execution = ("--max-attempts", "5", "--backoff", "fixed", "--retry-base", "7", "--deadline", "600")
    options = ("--overlap", "skip", "--no-automatic-backfill", "--shadow", "--catch-up-window", "90")
    assert said(*CREATE, *times, *span, *execution, *options).code == 0
    definition = owner.describe_schedule("s").definition
    rule = definition.rule
    assert (rule.timezone, rule.exclude, rule.max_fires, rule.also, rule.window) == (
        "Europe/Berlin",
        ("weekends",),
        3,
        ("0 12 * * *",),
        60,
    )
    assert definition.policies == {"retry": {"max_attempts": 5, "backoff": "fixed", "base": 7.0}, "deadline": 600.0}
    assert definition.options == {"overlap": "skip", "shadow": True, "catch_up_window": 90.0}


class TestUpdate:
    def test_a_part_of_a_rule_leaves_the_rest(self, said: Say, owner: Scheduler) -> None:
        said(*CREATE, "--exclude", "weekends", "--timezone", "Europe/Berlin")
        assert said("schedules", "update", "s", "--max-fires", "5").code == 0
        assert said("schedules", "update", "s", "--expression", "0 10 * * *", "--gap", "skip").code == 0
        rule = owner.describe_schedule("s").definition.rule
        assert (rule.expression, rule.exclude, rule.max_fires, rule.gap) == ("0 10 * * *", ("weekends",), 5, "skip")
        assert said("schedules", "update", "s", "--timezone", "UTC").code == 0
        assert owner.describe_schedule("s").definition.rule.timezone == "UTC"

    def test_an_option_is_unset(self, said: Say, owner: Scheduler) -> None:
        said(*CREATE, "--max-running", "2")
        assert said("schedules", "update", "s", "--unset", "max-running").code == 0
        assert owner.describe_schedule("s").definition.options == {}

    def test_who_comes_second_is_told(self, said: Say) -> None:
        said(*CREATE)
        said("schedules", "update", "s", "--payload", "1")
        lost = said("--json", "schedules", "update", "s", "--payload", "2", "--expected-revision", "1")
        assert (lost.problem["error"], lost.code) == ("Conflict", 4)
        assert said("schedules", "delete", "s", "--yes", "--expected-revision", "1").code == 4


def test_upsert_says_what_it_did(said: Say) -> None:
    words = ("schedules", "upsert", "s", "j", "0 9 * * *")
    assert [said("--json", *words).json[0]["change"] for _ in range(2)] == ["created", "unchanged"]
    assert said(*words, "--payload", "1").out.startswith("updated\n")


def test_found_by_what_they_are(said: Say) -> None:
    said("schedules", "create", "a", "j", "0 9 * * *", "--tag", "team=data")
    said("schedules", "create", "b", "k", "0 9 * * *", "--tag", "team=web")
    said("schedules", "pause", "b", "--reason", "n")

    def names(*filters: str) -> list[str]:
        return [one["name"] for one in said("--json", "schedules", "list", *filters).json]

    assert names("--job", "k") == names("--tag", "team=web") == names("--state", "PAUSED") == ["b"]
    assert names("--tag", "team") == names("--not-failing") == ["a", "b"]
    assert names("--failing") == []
    remark = said("schedules", "list", "--limit", "1").err
    (cursor,) = re.findall(r"--cursor '(a~\w+)'", remark)
    assert names("--cursor", cursor) == ["b"]


def test_described_for_people_and_programs(said: Say) -> None:
    said(*CREATE, "--max-running", "2", "--tag", "a=b")
    said("schedules", "update", "s", "--expression", "0 10 * * *")
    text = said("schedules", "describe", "s").out
    for part in ("chain\nok, its entry is due", "revisions", "last runs", "max running  2", "expression"):
        assert part in text
    (found,) = said("--json", "schedules", "describe", "s").json
    assert [one["number"] for one in found["revisions"]] == [2, 1]
    assert (found["chain"]["state"], len(found["next_fires"])) == ("ok", 10)
    assert found["definition"]["rule"]["expression"] == "0 10 * * *"
    assert "plan" not in found["definition"]["rule"], "what is worked out is nobody's business"


def test_previewed(said: Say) -> None:
    said(*CREATE, "--timezone", "Europe/Berlin")
    fires = said("--json", "schedules", "preview", "s", "--count", "3").json
    assert len(fires) == 3
    assert all("T09:00:00+0" in fire for fire in fires)
    said("schedules", "pause", "s")
    assert "not ACTIVE" in said("schedules", "preview", "s").err


@pytest.mark.parametrize(
    "options",
    [
        ("--after", "2026-03-27T00:00:00Z"),
        ("--after", "2026-03-27T00:00:00Z", "--around-dst", "--count", "2"),
        ("--explain", "--count", "1", "--after", "2d"),
        ("--json", "--after", "tomorrow"),
    ],
)
def test_a_schedule_is_previewed_as_its_expression_is(said: Say, options: tuple[str, ...]) -> None:
    said("schedules", "create", "s", "j", "30 2 * * *", "--timezone", "Europe/Berlin")
    of_schedule = said("schedules", "preview", "s", *options)
    of_expression = said("preview", "30 2 * * *", "--timezone", "Europe/Berlin", *options)
    assert of_schedule.code == of_expression.code == 0
    assert of_schedule.out == of_expression.out != ""


def test_a_rate_is_previewed_from_where_it_counts(said: Say) -> None:
    said("schedules", "create", "s", "j", "rate(7 minutes)")
    first, *_ = said("--json", "schedules", "get", "s").json[0]["next_fires"]
    shown = said("--json", "schedules", "preview", "s", "--after", "-1m", "--count", "1").json
    assert shown == [first]


def test_triggered_out_of_turn(said: Say) -> None:
    said(*CREATE)
    words = ("--json", "schedules", "trigger", "s", "--payload", "[1]", "--key", "k")
    (run,) = said(*words).json
    assert said(*words).json[0]["id"] == run["id"]
    assert said("--json", "runs", "show", run["id"]).json[0]["payload"] == [1]


def test_a_client_token_acts_once(said: Say) -> None:
    words = ("--json", *CREATE, "--client-token", "t")
    assert said(*words).json[0]["version"] == said(*words).json[0]["version"]
