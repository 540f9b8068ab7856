"""API keys: made, found again, replaced, revoked, expired; and what is stored of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.api_key import ApiKey, check_key_name, parse_key
from quarterjack.domain.tenants.caller import Caller
from quarterjack.domain.times import DAY, SECOND, from_ms
from quarterjack.errors import Conflict, InvalidInput, NotFound, Unavailable, Unreadable
from quarterjack.fires.context import FireContext
from quarterjack.owner.api_keys import authenticate, create_key, revoke_key
from quarterjack.stores.tenants.api_keys import key_of, key_row
from quarterjack.testing import ManualClock
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import Memory

START = 20_000 * DAY


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(from_ms(START))


@pytest.fixture
def memory(clock: ManualClock) -> Memory:
    return Memory(clock)


@pytest.fixture
def context(memory: Memory, clock: ManualClock) -> FireContext:
    return FireContext(services=memory.connect(), clock=clock, caller=Caller(actor="app:ada"))


Make = Callable[..., tuple[ApiKey, str]]


@pytest.fixture
def make(context: FireContext) -> Make:
    def made(tenant: str = "acme", name: str = "crm", *, expires_at: int | None = None) -> tuple[ApiKey, str]:
        return create_key(tenant, name, can=("submit",), jobs=("crm.*",), expires_at=expires_at, context=context)

    return made


@pytest.mark.parametrize("tenant", ["acme", "a_b", "qj_x", "A.b-c_", "x" * 64])
@pytest.mark.parametrize("name", ["crm", "a.b", "1.2", "x@acme-eu", "y" * 64])
def test_a_key_is_taken_and_no_other_text_is(make: Make, memory: Memory, tenant: str, name: str) -> None:
    key, text = make(tenant, name)
    other = memory.connect()  # of another process
    assert parse_key(text) == (tenant, name, key.slot)
    assert authenticate(text, other, START) == key
    wrong = [
        text[:-1],
        text + "a",
        text.swapcase(),
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        "",
        f"Bearer {text}",
    ]
    assert [authenticate(one, other, START) for one in wrong] == [None] * len(wrong)


def test_nothing_that_is_stored_says_the_text(make: Make, memory: Memory) -> None:
    key, text = make()
    stored = repr([key_row(one) for one in memory.connect().api_keys.keys("acme")])
    secret = text.rpartition("_")[2]
    assert key.digest in stored
    assert secret not in stored
    assert secret not in repr(memory.audit_rows())


class TestTwoAtATime:
    def test_one_replaces_the_other_without_a_gap(
        self, make: Make, memory: Memory, context: FireContext, clock: ManualClock
    ) -> None:
        (first, old), (second, new) = make(), make()
        assert (first.id, second.id, first.principal) == ("crm.1", "crm.2", second.principal)
        other = memory.connect()
        assert authenticate(old, other, START) is not None
        revoke_key("acme", "crm.1", context)
        assert authenticate(old, context.services, clock()) is None  # at once where it was revoked
        assert authenticate(old, other, START + 5 * SECOND) is None  # within five seconds elsewhere
        assert authenticate(new, other, START + 5 * SECOND) is not None
        third, newest = make()
        assert third.id == "crm.1"
        assert authenticate(old, memory.connect(), clock()) is None
        assert authenticate(newest, memory.connect(), clock()) is not None

    def test_a_third_is_refused_and_nothing_is_written(self, make: Make, memory: Memory) -> None:
        make()
        make()
        before = len(memory.audit_entries())
        with pytest.raises(Conflict, match="'crm': tenant 'acme' has two valid keys"):
            make()
        assert len(memory.audit_entries()) == before

    def test_an_expired_one_gives_its_place(self, make: Make, clock: ManualClock) -> None:
        make(expires_at=START + SECOND)
        make()
        clock.reach(START + SECOND)
        key, _ = make()
        assert key.id == "crm.1"

    def test_a_race_for_a_place_leaves_two(self, memory: Memory, context: FireContext, make: Make) -> None:
        """Another process takes both places after this one has looked."""

        class Meanwhile(Hook):
            def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
                if operation == "TransactWriteItems" and not made:
                    made.extend([make(), make()])
                return frozenset()

        made: list[tuple[ApiKey, str]] = []
        late = replace(context, services=memory.connect(Meanwhile()))
        with pytest.raises(Conflict, match="two valid keys"):
            create_key("acme", "crm", can=("admin",), jobs=("*",), expires_at=None, context=late)
        assert {key.digest for key in context.services.api_keys.keys("acme")} == {key.digest for key, _ in made}


def test_an_expired_key_is_taken_no_more(make: Make, memory: Memory) -> None:
    _, text = make(expires_at=START + SECOND)
    services = memory.connect()
    assert authenticate(text, services, START + SECOND - 1) is not None
    assert authenticate(text, services, START + SECOND) is None


def test_the_day_of_its_use_is_written_once_a_day(make: Make, memory: Memory) -> None:
    class Counts(Hook):
        writes = 0

        def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
            self.writes += operation == "UpdateItem"
            return frozenset()

    _, text = make()
    services = memory.connect(counts := Counts())
    for at in range(START, START + DAY, DAY // 8):
        assert authenticate(text, services, at) is not None
    assert counts.writes == 1
    assert services.api_keys.keys("acme")[0].used_on == START // DAY
    authenticate(text, services, START + DAY)
    assert services.api_keys.keys("acme")[0].used_on == START // DAY + 1


def test_a_key_of_one_tenant_is_none_of_another(make: Make, memory: Memory) -> None:
    _, text = make("acme")
    make("beta")
    assert authenticate(text.replace("qj_acme", "qj_beta"), memory.connect(), START) is None


def test_who_made_and_revoked_it_is_in_the_audit(make: Make, memory: Memory, context: FireContext) -> None:
    make()
    revoke_key("acme", "crm.1", context)
    acts = [(line.act, line.actor, line.detail["key"]) for line in memory.audit_entries()]
    assert acts == [(AuditAct.CREATE_KEY, "app:ada", "crm.1"), (AuditAct.REVOKE_KEY, "app:ada", "crm.1")]


def test_revoking_one_that_is_not_there(context: FireContext) -> None:
    with pytest.raises(NotFound, match=r"key='crm\.1': tenant 'acme' has no such key"):
        revoke_key("acme", "crm.1", context)


@pytest.mark.parametrize("name", ["", "a_b", "a b", "ä", "x" * 65, None, "a/b", "a#b"])
def test_wrong_names(name: object) -> None:
    with pytest.raises(InvalidInput, match="name="):
        check_key_name(name)


def test_while_the_table_does_not_answer_nobody_is_told_that_the_key_is_wrong(make: Make, memory: Memory) -> None:
    class Down(Hook):
        def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
            raise Unavailable("no answer")

    _, text = make()
    with pytest.raises(Unavailable):
        authenticate(text, memory.connect(Down()), START)


def test_a_row_that_cannot_be_read(make: Make) -> None:
    key, _ = make()
    assert key_of(key_row(key)) == key
    with pytest.raises(Unreadable):
        key_of(key_row(key) | {"can": "{"})
