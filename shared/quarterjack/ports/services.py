"""All ports of one installation, and the clock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quarterjack.ports.agenda import Agenda
from quarterjack.ports.audit import Audit
from quarterjack.ports.dead_index import DeadIndex
from quarterjack.ports.dead_queue import DeadQueue
from quarterjack.ports.ledger import Ledger
from quarterjack.ports.leftovers import Leftovers
from quarterjack.ports.notices import Notices
from quarterjack.ports.payloads import Payloads
from quarterjack.ports.records import Records
from quarterjack.ports.run_logs import RunLogs
from quarterjack.ports.schedules import ScheduleStore
from quarterjack.ports.tenants.api_keys import ApiKeyStore
from quarterjack.ports.tenants.profiles import TenantStore
from quarterjack.ports.tenants.secrets import Secrets
from quarterjack.ports.tenants.usage import TenantUsage
from quarterjack.ports.work_queue import WorkQueue
from quarterjack.state.backpressure import Limits

if TYPE_CHECKING:  # who uses no history loads none of it
    from quarterjack.ports.history.archive import Archive
    from quarterjack.ports.history.event_sink import EventSink
    from quarterjack.ports.history.pages import History
    from quarterjack.ports.history.run_stream import RunStream
    from quarterjack.ports.tenants.erasure import ErasureStore, ObjectVersions

Clock = Callable[[], int]  # UTC ms


@dataclass(frozen=True, kw_only=True)
class Services:
    """The ports, as one process uses them."""

    schedules: ScheduleStore
    ledger: Ledger
    agenda: Agenda
    work: WorkQueue
    dead: DeadQueue
    dead_index: DeadIndex
    payloads: Payloads
    archive: Archive
    records: Records
    leftovers: Leftovers
    history: History
    stream: RunStream
    audit: Audit
    tenants: TenantStore
    usage: TenantUsage
    erasures: ErasureStore
    objects: ObjectVersions
    api_keys: ApiKeyStore
    identity: Callable[[], str]  # of this process: "iam:<ARN>", resolved with the first act
    notices: Notices
    secrets: Secrets  # of tenants
    logs: RunLogs
    retention: int  # ms for which ended runs stay in the ledger; nothing older is ever claimed
    events: EventSink | None = None  # where events are published; None: nowhere
    schedule_events: frozenset[str] = frozenset()  # types of events about schedules that this installation publishes
    limits: Limits = field(default_factory=Limits)  # above them the ticker holds a queue back
    wait: Callable[[float], object] = threading.Event().wait  # waits so many seconds in the calling thread
