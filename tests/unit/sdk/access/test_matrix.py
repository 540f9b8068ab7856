"""Every method × every role and verb × own and foreign tenant × granted and foreign job: what is let in is exactly what the table says."""

from __future__ import annotations

import inspect

import pytest
from quarterjack import AsyncScheduler, Grant, Scheduler, Tenants
from quarterjack.domain.tenants.access import OF_INSTALLATION as VERBS_OF_INSTALLATION
from quarterjack.domain.tenants.access import ROLES, Role, Verb, verbs_of
from quarterjack.domain.tenants.profile import ALL, INSTALLATION
from quarterjack.owner import access
from quarterjack.sdk.call_verbs import CALLS, FREE, OF_TENANTS, About

from tests.support.parts import in_turn
from tests.support.scenes.granted import (
    CALLER,
    CASES,
    FOREIGN,
    GRANTED,
    LIMIT,
    OF_INSTALLATION,
    OTHER,
    OWN,
    REFUSED,
    Case,
    Installation,
    at,
    is_refused,
)

WORDS = [*map(str, Role), *map(str, Verb)]


@pytest.fixture(autouse=True)
def denials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "DENIALS", access.DenialSampler())


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def test_every_public_method_has_a_verb() -> None:
    assert public(Scheduler) == set(CALLS) | FREE - {"tenant"}
    assert public(AsyncScheduler) == set(CALLS) | FREE | {"of", "aclose"}
    assert public(Tenants) == set(OF_TENANTS) | {"acting_as", "with_caller"}


def test_every_verb_is_of_some_role_and_of_some_method() -> None:
    assert frozenset().union(*ROLES.values()) == set(Verb)
    used = {verb for call in (*CALLS.values(), *OF_TENANTS.values()) for verb in call.verbs}
    assert used | {Verb.RESTORE} == set(Verb)  # that one is of a command alone: cli/test_restore.py


def test_every_method_and_each_of_its_verbs_is_in_the_cases() -> None:
    tried: dict[str, set[Verb]] = {}
    for case in (*CASES, *OF_INSTALLATION):
        tried.setdefault(case.method, set()).update(case.needs)
    assert tried == {name: set(call.verbs) for name, call in CALLS.items()}


def lets_in(case: Case, word: str, pattern: str, job: str) -> bool:
    """What the table says of a grant of one role or verb for a pattern of jobs."""
    if not case.needs <= verbs_of([word]):
        return False
    if case.about_job:
        return pattern == ALL or job == GRANTED
    return pattern == ALL or CALLS[case.method].about is About.SOME


@in_turn("case", CASES, [f"{number}-{case.method}" for number, case in enumerate(CASES)], of=6)
def test_a_call_is_let_in_as_the_table_says(case: Case) -> None:
    here = Installation()
    here.close()
    before = here.rows()
    for word in WORDS:
        if word in VERBS_OF_INSTALLATION:
            continue
        for pattern in (ALL, LIMIT):
            grants = Grant(to=OTHER, can=("admin",)), Grant(to=CALLER, can=(word,), jobs=(pattern,))
            here.grant(OWN, *grants)
            for job in (GRANTED, REFUSED) if case.about_job else (GRANTED,):
                wanted = lets_in(case, word, pattern, job)
                refused = is_refused(case.act, here.caller(), here.things[OWN, job])
                assert (refused is None) is wanted, (case.method, word, pattern, job, refused)
                if refused is None:
                    here = Installation()
                    here.close()
                    here.grant(OWN, *grants)
                    before = here.rows()
                else:
                    assert (refused.principal, refused.tenant) == (CALLER, OWN)
                    assert refused.verb in case.needs | {Verb.UPDATE}
                    assert f"tenants grant {OWN} --to '{CALLER}'" in str(refused.command)
                    assert "quarterjack " not in str(refused)
                    assert here.rows() == before


@pytest.mark.parametrize("word", Role)
def test_a_grant_of_one_tenant_is_none_of_another(word: Role) -> None:
    here = Installation()
    here.close()
    here.grant(OWN, Grant(to=CALLER, can=(word,)))
    before = here.rows()
    for case in CASES:
        refused = is_refused(case.act, here.caller(FOREIGN), here.things[FOREIGN, GRANTED])
        assert refused is not None, case.method
        assert refused.tenant == FOREIGN
    assert here.rows() == before


@pytest.mark.parametrize("case", OF_INSTALLATION, ids=lambda case: case.method)
def test_what_concerns_all_tenants_needs_a_grant_of_the_installation(case: Case) -> None:
    for word in WORDS:
        here = Installation()
        here.close()
        here.grant(INSTALLATION, Grant(to=OTHER, can=("admin",)))
        here.grant(OWN, Grant(to=CALLER, can=("admin",)))
        assert is_refused(case.act, here.caller(), here.things[OWN, GRANTED]) is not None
        here.grant(INSTALLATION, Grant(to=OTHER, can=("admin",)), Grant(to=CALLER, can=(word,)))
        refused = is_refused(case.act, here.caller(), here.things[OWN, GRANTED])
        assert (refused is None) == (case.needs <= verbs_of([word])), word


# Method, arguments, verb, and whether a grant of the tenant itself gives it.
REGISTRY: list[tuple[str, tuple[object, ...], Verb, bool]] = [
    ("get", (OWN,), Verb.READ_TENANT, True),
    ("list", (), Verb.READ_TENANT, False),
    ("create", ("new",), Verb.MANAGE_TENANTS, False),
    ("set", (OWN,), Verb.MANAGE_TENANTS, False),
    ("suspend", (OWN,), Verb.MANAGE_TENANTS, False),
    ("resume", (OWN,), Verb.MANAGE_TENANTS, False),
    ("count_erasure", (OWN,), Verb.MANAGE_TENANTS, False),
    ("erase", (OWN, OWN), Verb.MANAGE_TENANTS, False),
    ("erasure", (OWN,), Verb.READ_TENANT, True),
    ("grant", (OWN, OTHER, "viewer"), Verb.GRANT, True),
    ("revoke", (OWN, "app:nobody"), Verb.GRANT, True),
    ("check_operator", (), Verb.READ_TENANT, False),
    ("breakers", (OWN,), Verb.READ_TENANT, True),
    ("reset_breaker", (OWN,), Verb.MANAGE_TENANTS, False),
    ("create_key", (OWN, "crm", "submit"), Verb.GRANT, True),
    ("keys", (OWN,), Verb.READ_TENANT, True),
    ("figures", (OWN,), Verb.READ_TENANT, True),
    ("revoke_key", (OWN, "crm.1"), Verb.GRANT, True),
    ("secrets", (OWN,), Verb.SECRETS, True),
    ("set_secret", (OWN, "token", "value"), Verb.SECRETS, True),
    ("delete_secret", (OWN, "token"), Verb.SECRETS, True),
    ("dump", (OWN,), Verb.DUMP, True),
    ("load", ("/nowhere",), Verb.LOAD, False),
    ("end_schedules", (OWN, at(9_000)), Verb.PAUSE, True),
]


@in_turn(("method", "arguments", "verb", "own"), REGISTRY, [each[0] for each in REGISTRY], of=6)
def test_the_registry_is_for_admins(method: str, arguments: tuple[object, ...], verb: Verb, own: bool) -> None:
    here = Installation()
    for word in WORDS:
        has = verb in verbs_of([word])
        for holder in (OWN, INSTALLATION):
            if holder == OWN and word in VERBS_OF_INSTALLATION:
                continue
            for name in (OWN, INSTALLATION):
                grants = [Grant(to=OTHER, can=("admin",)), *([Grant(to=CALLER, can=(word,))] if name == holder else [])]
                here.grant(name, *grants)
            refused = is_refused(getattr(here.tenants(), method), *arguments)
            assert (refused is None) == (has and (own or holder == INSTALLATION)), (word, holder)
            if refused is None:
                here = Installation()
    assert {each[0] for each in REGISTRY} == set(OF_TENANTS)
    assert OF_TENANTS[method].verbs == (verb,)
