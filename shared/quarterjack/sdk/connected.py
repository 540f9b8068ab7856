"""What every class of the SDK begins with: the connections of one installation, and who calls."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

from quarterjack.clock import system_clock
from quarterjack.domain.audit import Caller, Via, ViaWord, checked_reason, checked_via, claimed_actor
from quarterjack.owner.access import AccessGate
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.requests import refuse_secrets
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
        self._settings = given = replace(given.at(endpoint), prefix=prefix or given.prefix)
        field, claimed = ("actor", actor) if actor is not None else ("QUARTERJACK_ACTOR", given.actor)
        self._caller = Caller(actor=claimed_actor(claimed, field), via=checked_via(via))
        if services is None:
            from quarterjack.services import connect  # noqa: PLC0415 (adapters and clients: imported with the first call to AWS)

            services = connect(given)
        self._services, self._clock = services, clock
        self._gate = AccessGate(services, clock)

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
        caller = replace(self._caller, **{name: value for name, value in given.items() if value is not None})
        return self._with_caller(caller)

    def _with_caller(self, caller: Caller) -> Self:
        return self._copy(_caller=caller)

    def _copy(self, **attributes: object) -> Self:
        """A copy with other attributes, that shares all connections and what is known of the installation."""
        other = copy(self)
        vars(other).update(attributes)
        return other
