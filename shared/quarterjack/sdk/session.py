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
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from quarterjack.clock import system_clock
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import Caller, Via, ViaWord, checked_reason, checked_via, claimed_actor
from quarterjack.fires.context import FireContext
from quarterjack.fires.gates import Gate
from quarterjack.owner.access import AccessGate
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.known_jobs import warn_unknown
from quarterjack.sdk.requests import refuse_secrets
from quarterjack.settings import Settings, from_environment
from quarterjack.values import replace


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
    coming: Collection[
        str | None
    ] = ()  # names of schedules that one plan declares: a task may name one that is made later

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


class Connected:
    def __init__(
        self,
        *,
        settings: Settings | None = None,
        endpoint: str | None = None,
        prefix: str | None = None,
        actor: str | None = None,
        via: ViaWord = Via.SDK,
        services: Services | None = None,
        clock: Clock = system_clock,
    ) -> None:
        given = settings or from_environment()
        given = replace(given.at(endpoint), prefix=prefix or given.prefix)
        field, claimed = ("actor", actor) if actor is not None else ("QUARTERJACK_ACTOR", given.actor)
        caller = Caller(actor=claimed_actor(claimed, field), via=checked_via(via))
        if services is None:
            from quarterjack.services import connect  # noqa: PLC0415 (adapters and clients: imported with the first call to AWS)

            services = connect(given)
        gate = AccessGate(services, clock)
        self.session = Session(settings=given, services=services, clock=clock, gate=gate, caller=caller)

    def acting_as(self, actor: str | None = None, *, reason: str | None = None, via: ViaWord | None = None) -> Self:
        """A copy whose acts have this ``actor``, ``reason`` and ``via`` in the audit; what is left out stays as it is.

        ``actor`` is whom the application acts for, e.g. "alice@acme": stored as "app:alice@acme", beside the IAM identity of the
        process. The copy shares all connections. Raises InvalidInput.
        """
        refuse_secrets("reason", lambda: reason, getattr(self, "tenant", None))
        given: dict[str, Any] = {
            "actor": claimed_actor(actor),
            "reason": checked_reason(reason),
            "via": None if via is None else checked_via(via),
        }
        caller = replace(self.session.caller, **{name: value for name, value in given.items() if value is not None})
        return self.with_caller(caller)

    def with_caller(self, caller: Caller) -> Self:
        """A copy whose acts are those of this caller: of somebody whom the application has checked, or of a role of the installation.

        Nothing of the caller is checked here, and a role needs no grants: for what a client claims there is ``acting_as``. The copy
        shares all connections.
        """
        return over(self, replace(self.session, caller=caller))
