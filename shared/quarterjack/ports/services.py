"""All stores and ports of one installation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from quarterjack.state.backpressure import Limits
from quarterjack.values import value

if TYPE_CHECKING:  # a process loads only the stores and ports that it uses
    from quarterjack.ports.buckets import Archive, ObjectVersions, Payloads
    from quarterjack.ports.queues import DeadQueue, WorkQueue
    from quarterjack.ports.receivers import EventSink, Notices
    from quarterjack.ports.run_logs import RunLogs
    from quarterjack.ports.run_stream import RunStream
    from quarterjack.ports.secrets import Secrets
    from quarterjack.stores.agenda import Agenda
    from quarterjack.stores.audit import Audit
    from quarterjack.stores.dead_index import DeadIndex
    from quarterjack.stores.history.books import History
    from quarterjack.stores.ledger import Ledger
    from quarterjack.stores.records import Records
    from quarterjack.stores.schedules import ScheduleStore
    from quarterjack.stores.siblings import Siblings
    from quarterjack.stores.tenants.api_keys import ApiKeyStore
    from quarterjack.stores.tenants.erasures import ErasureStore
    from quarterjack.stores.tenants.profiles import TenantStore
    from quarterjack.stores.tenants.usage import TenantUsage
    from quarterjack.stores.unique_keys import UniqueKeys
    from quarterjack.stores.upkeep import Upkeep
    from quarterjack.stores.waits import Waits

Clock = Callable[[], int]  # UTC ms


@value(kw_only=True)
class Services:
    """The stores and the ports, as one process uses them. It is flat because each step names the one that it calls."""

    schedules: ScheduleStore
    ledger: Ledger
    siblings: Siblings  # of runs
    waits: Waits  # of runs
    unique_keys: UniqueKeys  # of runs
    agenda: Agenda
    work: WorkQueue
    dead: DeadQueue
    dead_index: DeadIndex
    payloads: Payloads
    archive: Archive
    records: Records
    upkeep: Upkeep
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
