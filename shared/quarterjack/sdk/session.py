"""What ``Scheduler`` and ``Tenants`` act with: the connections of one installation, and who calls. HTTP API and console ask it, too.

```
Scheduler ── tenant, jobs ──┐
                            ├── session ── services, clock, settings    shared by all copies
Tenants ────────────────────┘         ├── gate                         what callers may do, as it was read
                                      └── caller, patience, strict …     of one caller: ``over`` makes a copy with others
```

A session is a value: nothing of it changes. It is no part of the public interface.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from quarterjack.domain.audit import Caller
from quarterjack.domain.tenants.access import Verb
from quarterjack.fires.context import FireContext
from quarterjack.fires.gates import Gate
from quarterjack.owner.access import AccessGate
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.known_jobs import warn_unknown
from quarterjack.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Session:
    """The connections of an installation, and the caller who uses them."""

    settings: Settings
    services: Services
    clock: Clock
    gate: AccessGate
    caller: Caller
    patience: float = 0.0  # seconds for which a call waits where the tenant's rate is used up
    strict: bool = False  # whether a job that no worker knows is refused
    on_unknown: Callable[[str], None] = warn_unknown  # is told of such a job if it is not

    def may(self, tenant: str, verb: Verb, job: str | None = None) -> bool:
        """Whether the caller has a verb for a job of a tenant; None: for all its jobs. Nothing is audited. Raises Unavailable."""
        return self.gate.allowance(tenant, self.caller, verb).covers(job)

    def may_some(self, tenant: str, verb: Verb) -> bool:
        """Whether the caller has a verb for some job of a tenant. Nothing is audited. Raises Unavailable."""
        return self.gate.allowance(tenant, self.caller, verb).nobody is None

    def context(self, gates: Sequence[Gate] = ()) -> FireContext:
        """The context of one call: the audit entries of its acts share an id."""
        return FireContext(services=self.services, clock=self.clock, gates=gates, caller=self.caller_of_call())

    def caller_of_call(self) -> Caller:
        """The caller with the id of one call: its own if it has one, else a new one."""
        return self.caller if self.caller.call is not None else replace(self.caller, call=secrets.token_hex(8))


class HasSession(Protocol):
    """``Scheduler`` or ``Tenants``."""

    session: Session


_Acts = TypeVar("_Acts", bound=HasSession)


def over(acts: _Acts, session: Session) -> _Acts:
    """A copy of a Scheduler or Tenants over another session. What it knows of the installation is shared."""
    other = copy(acts)
    other.session = session
    return other
