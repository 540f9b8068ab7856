"""Which jobs a tenant may run: names, patterns, jobs that go by their name alone, and the words of a refusal."""

from __future__ import annotations

import random
import re

import pytest
from quarterjack.domain.tenants.access import job_problem
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile, TenantState, matches


def of(*jobs: str, default: tuple[str, ...] | None = None) -> Governance:
    return Governance(
        tenant="acme",
        own=TenantProfile(tenant="acme", jobs=jobs),
        installation=None if default is None else TenantProfile(tenant=INSTALLATION, jobs=default),
    )


@pytest.mark.parametrize(
    ("jobs", "job", "by_name", "may"),
    [
        (("report.daily",), "report.daily", False, True),
        (("report.daily",), "report.daily.more", False, False),
        (("report.*",), "report.daily", False, True),
        (("report.*",), "reports.daily", False, False),
        (("*",), "anything", False, True),
        (("*",), "command", True, False),
        (("comm*", "*and"), "command", True, False),
        (("command",), "command", True, True),
        (("*", "command"), "command", True, True),
        ((), "anything", False, False),
        (("a*b*c",), "a-b-c", False, True),
        (("a*b*c",), "a-c-b", False, False),
    ],
)
def test_a_job_is_named_or_matched(jobs: tuple[str, ...], job: str, by_name: bool, may: bool) -> None:
    for _ in range(2):  # the second time it is remembered
        assert (job_problem(of(*jobs), job, by_name=by_name) is None) is may


def test_a_decision_about_one_job_says_nothing_of_another() -> None:
    governance = of("a", "b*")
    asked = [(job, by_name) for job in ("a", "b", "bb", "c") for by_name in (False, True)]
    wanted = {("a", False), ("a", True), ("b", False), ("bb", False)}
    for _ in range(3):
        random.Random(1).shuffle(asked)
        assert {each for each in asked if governance.may_run(each[0], by_name=each[1])} == wanted


def test_what_is_remembered_is_bounded() -> None:
    governance = of("job-1*")
    assert sum(governance.may_run(f"job-{number}", by_name=False) for number in range(10_000)) == 1_111
    assert len(governance._decided) <= 1_000
    assert governance == of("job-1*"), "what was asked is no part of the value"


@pytest.mark.parametrize("own", [None, TenantProfile(tenant="acme", description="a customer", queue="slow")])
def test_without_a_list_the_installations_holds(own: TenantProfile | None) -> None:
    default = TenantProfile(tenant=INSTALLATION, jobs=("a",), queue="default-of-all", state=TenantState.SUSPENDED)
    governance = Governance(tenant="acme", own=own, installation=default)
    assert (governance.may_run("a", by_name=True), governance.may_run("b", by_name=False)) == (True, False)
    assert governance.profile.accepts, "the installation is never suspended"
    assert governance.profile.queue == ("default-of-all" if own is None else "slow")
    assert Governance(tenant="acme", own=own).may_run("b", by_name=True), "nothing is limited"


def test_the_words_name_tenant_job_and_the_command() -> None:
    assert job_problem(of("a"), "b", by_name=False) == (
        "tenant 'acme' may not run job 'b'; ask an operator of the installation for it"
    )
    assert "a pattern such as * does not give it" in str(job_problem(of("*"), "command", by_name=True))


def test_patterns_agree_with_regular_expressions() -> None:
    dice = random.Random(3)
    for _ in range(5_000):
        pattern = "".join(dice.choice("ab*.") for _ in range(dice.randint(1, 6)))
        text = "".join(dice.choice("ab.") for _ in range(dice.randint(0, 8)))
        wanted = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
        assert matches(pattern, text) is wanted, (pattern, text)
