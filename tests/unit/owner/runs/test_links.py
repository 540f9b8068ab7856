"""Links that answer a run: made, listed and revoked by the SDK. ``console/test_answer_links.py`` has their pages."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import LinkState, SignalLink
from quarterjack.domain.names import parse_run_id
from quarterjack.errors import Forbidden, InvalidInput, NotFound
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.sdk.waits.links import read_link, use_link

from tests.support.scenes.world import Faults, World, at

BASE = "https://jobs.example.com/console"


def waiting() -> tuple[World, str]:
    """A run that waits for an approval."""
    world = World()
    world.jobs.job("pay")(lambda ctx, payload: ctx.wait_for("approval"))
    run = world.scheduler.submit("pay")
    world.work()
    return world, run.id


def link_of(world: World, run_id: str, payload: Any = True, **more: Any) -> SignalLink:
    return world.scheduler.signal_link(run_id, "approval", payload, **{"to": "ada@acme.example", "base": BASE, **more})


def token_of(link: SignalLink) -> str:
    return link.url.rpartition("/")[2]


def test_the_links_of_a_run_are_listed_with_their_states_and_without_their_urls() -> None:
    world, run_id = waiting()
    assert world.scheduler.list_links(run_id) == []
    first = link_of(world, run_id, {"ok": True}, expires_in=60)
    world.wait(61)
    second, third = link_of(world, run_id, to="bob"), link_of(world, run_id, to="cy")
    world.scheduler.revoke_link(run_id, third.id)
    found = {link.id: link for link in world.scheduler.list_links(run_id)}
    states = [found[link.id].state for link in (first, second, third)]
    assert states == [LinkState.EXPIRED, LinkState.OPEN, LinkState.REVOKED]
    assert (found[first.id].to, found[first.id].payload, found[first.id].name) == (
        "ada@acme.example",
        {"ok": True},
        "approval",
    )
    assert (found[first.id].made_at, found[third.id].revoked_at) == (at(0), at(61))
    assert not any(token_of(link) in repr(found) for link in (first, second, third))
    world.scheduler.signal(run_id, "approval", 1)
    assert next(link for link in world.scheduler.list_links(run_id) if link.id == second.id).state == "answered"


@pytest.mark.parametrize(
    "base",
    [
        *("https://[", "https://[x]/console", "ftp://jobs.example.com", "https://", "", 7),
        *(
            "https://ada:secret@jobs.example.com/console",
            "https://jobs.example.com/con sole",
            "https://jobs.example.com/\nx",
        ),
        *("https://:8642/console", "https://jobs.example.com:many/console", "https://jobs.example.com/console?a=1"),
    ],
)
def test_what_is_no_address_of_a_console_is_refused(base: Any) -> None:
    with pytest.raises(InvalidInput, match="is not the URL of a console"):
        link_of(*waiting(), base=base)


def test_a_link_that_was_revoked_gives_no_answer() -> None:
    world, run_id = waiting()
    link, other = link_of(world, run_id), link_of(world, run_id)
    gone = world.scheduler.revoke_link(run_id, link.id)
    assert (gone.id, gone.state, gone.revoked_at) == (link.id, LinkState.REVOKED, world.now())
    world.wait(5)
    assert world.scheduler.revoke_link(run_id, link.id) == gone, "once"
    assert use_link(world.scheduler.session, run_id, token_of(link)).state is LinkState.REVOKED
    assert world.services.waits.signal(parse_run_id(run_id), "approval") is None
    assert use_link(world.scheduler.session, run_id, token_of(other)).is_mine
    acts = [(entry.act, entry.detail["link"]) for entry in world.scheduler.audit().items if "link" in str(entry.act)]
    assert sorted(acts) == sorted([("signal-link", link.id), ("signal-link", other.id), ("revoke-link", link.id)])


def test_a_revocation_between_the_look_at_a_link_and_its_answer_counts() -> None:
    """Once ``revoke_link`` has returned, no answer comes by the link, however far its page was."""
    world, run_id = waiting()
    link, faults = link_of(world, run_id), Faults()
    faults.at("put_signal", before=lambda: world.scheduler.revoke_link(run_id, link.id))
    seen = use_link(world.owner(faults).session, run_id, token_of(link))
    assert (seen.state, seen.is_mine) == (LinkState.REVOKED, False)
    assert world.services.waits.signal(parse_run_id(run_id), "approval") is None
    assert list(world.scheduler.audit(act="signal").items) == []


def test_an_answer_before_the_revocation_stays() -> None:
    world, run_id = waiting()
    link = link_of(world, run_id, "yes")
    use_link(world.scheduler.session, run_id, token_of(link))
    world.scheduler.revoke_link(run_id, link.id)
    world.live(5)
    assert world.scheduler.get_run(run_id).result == "yes"
    assert read_link(world.scheduler.session, run_id, token_of(link)).state is LinkState.REVOKED


def test_two_revocations_at_once_write_one_entry() -> None:
    world, run_id = waiting()
    link, faults = link_of(world, run_id), Faults()
    faults.at("revoke_link", before=lambda: world.scheduler.revoke_link(run_id, link.id))
    assert world.owner(faults).revoke_link(run_id, link.id).state is LinkState.REVOKED
    assert len(world.scheduler.audit(act="revoke-link").items) == 1


@pytest.mark.parametrize("which", ["", "x", "0" * 11, "0" * 64, "ABCDEF012345", None, 7])
def test_what_is_no_id_of_a_link_is_refused(which: Any) -> None:
    world, run_id = waiting()
    link_of(world, run_id)
    with pytest.raises(InvalidInput) as refused:
        world.scheduler.revoke_link(run_id, which)
    assert refused.value.field == "link"


def test_a_link_of_another_run_is_not_there() -> None:
    world, run_id = waiting()
    link = link_of(world, run_id)
    other = world.scheduler.submit("pay")
    with pytest.raises(NotFound, match=r"list_links"):
        world.scheduler.revoke_link(other.id, link.id)
    assert world.scheduler.list_links(other.id) == []
    assert world.scheduler.list_links(run_id)[0].state is LinkState.OPEN


def test_a_viewer_lists_links_without_answers_and_revokes_none() -> None:
    world, run_id = waiting()
    link = link_of(world, run_id, {"secret": 1})
    tenants = Tenants(services=world.services, clock=world.clock)
    tenants.grant("acme", "iam:*", "admin")
    tenants.grant("acme", "app:eve", "viewer")
    eve = world.owner().acting_as("eve")
    assert eve.list_links(run_id)[0].payload is None
    with pytest.raises(Forbidden):
        eve.revoke_link(run_id, link.id)
