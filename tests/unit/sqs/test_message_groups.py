"""The message group of every message is the run's tenant, or one of as many as it has weight: fair queues tell tenants by it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import quarterjack
from quarterjack import Scheduler, Tenants
from quarterjack.domain.message import decode
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.services import connect, system_clock
from quarterjack.stores.agenda import Agenda
from quarterjack.testing import Memory
from quarterjack.testing.cloud import fresh_settings
from quarterjack.ticker.tick import tick

from tests.support.scenes.world import Faults, fails

SENDERS = {
    "sqs/queues.py": 2,
    "ready_jobs/targets.py": 1,
}  # runs and dead letters; a job whose work is to send a message
AGO = 200_000  # ms: no fire of the schedule is sent before the tick
EVERY = "rate(10 seconds)"


def test_messages_of_runs_are_in_their_tenants_group(local_cloud: LocalCloud) -> None:
    with reached_by_this_process(local_cloud.environment):
        settings = fresh_settings(local_cloud)
        services = connect(settings)
        for tenant in ("acme", "other"):
            scheduler = Scheduler(tenant, settings=settings, services=services)
            scheduler.submit("report")
            earlier = Scheduler(tenant, settings=settings, services=services, clock=lambda: system_clock() - AGO)
            earlier.create_schedule("s", "report", EVERY)
            scheduler.trigger("s")
        tick(services, clock=system_clock, holder="test")
        found = _received(settings.prefix)
    assert all(group == tenant for group, tenant in found), found
    of = Counter(tenant for _, tenant in found)
    assert min(of["acme"], of["other"]) >= 3, "one-offs, a trigger and fires"


def _received(prefix: str) -> list[tuple[str | None, str]]:
    """Group and tenant of all messages in the work queues."""
    sqs: Any = boto3.client("sqs")
    found = list[tuple[str | None, str]]()
    for url in sqs.list_queues(QueueNamePrefix=f"{prefix}-work")["QueueUrls"]:
        while messages := _page(sqs, url):
            found += [(each["Attributes"].get("MessageGroupId"), decode(each["Body"]).run.tenant) for each in messages]
    return found


def _page(sqs: Any, url: str) -> list[dict[str, Any]]:
    asked = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 600, "AttributeNames": ["All"]}
    return sqs.receive_message(QueueUrl=url, **asked).get("Messages", [])  # type: ignore[no-any-return]


def test_messages_are_sent_nowhere_else() -> None:
    """Whoever adds a place that sends says here whose message it is."""
    root, found = Path(quarterjack.__file__).parent, Counter[str]()
    for module in root.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            name = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", None)
            if name in ("send_message", "send_message_batch"):
                found[str(module.relative_to(root))] += 1
    assert found == SENDERS


def test_a_tenant_of_weight_three_is_three_message_groups(local_cloud: LocalCloud) -> None:
    with reached_by_this_process(local_cloud.environment):
        settings = fresh_settings(local_cloud)
        Tenants(settings=settings).create("acme", limits={"weight": 3})
        for tenant in ("acme", "other"):
            scheduler = Scheduler(tenant, settings=settings)
            for _ in range(30):
                scheduler.submit("report")
        earlier = Scheduler("acme", settings=settings, clock=lambda: system_clock() - AGO)
        earlier.create_schedule("s", "report", EVERY)
        tick(connect(settings), clock=system_clock, holder="test")
        found = Counter(_received(settings.prefix))
    assert {group for group, tenant in found if tenant == "other"} == {"other"}
    assert {group for group, tenant in found if tenant == "acme"} == {"acme#0", "acme#1", "acme#2"}
    assert found["other", "other"] == 30


def test_a_message_is_sent_though_no_weight_can_be_read() -> None:
    memory = Memory(system_clock)
    faults = Faults().at("layout", before=fails, times=None)
    agenda = memory.connect(faults).agenda
    assert isinstance(agenda, Agenda)
    assert [agenda.weight_of("acme") for _ in range(9)] == [1] * 9
    assert faults.verbs().count("layout") == 2, "one call and its repetition, and then none for ten seconds"
