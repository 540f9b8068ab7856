"""What every class of the SDK begins with: the connections of one installation, and who calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from quarterjack.clock import system_clock
from quarterjack.domain.audit import Caller, Via, ViaWord, checked_reason, checked_via, claimed_actor
from quarterjack.owner.access import AccessGate
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.requests import refuse_secrets
from quarterjack.sdk.session import Session, over
from quarterjack.settings import Settings, from_environment


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
