"""SDK methods for signals to runs that wait."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.names import check_name, is_text, parse_callback_token
from quarterjack.domain.payload import size
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import MAX_REASON
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput
from quarterjack.owner.runs.signal import heartbeat, send_signal
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.views import Run
from quarterjack.stores.waits import FAILURE


class SignalOutcome(StrEnum):
    """What became of a signal. The first one of a name is the answer."""

    ACCEPTED = "accepted"  # it is the answer
    REPEATED = "repeated"  # an equal one came before
    ANSWERED = "answered"  # another one came before
    TIMED_OUT = "timed-out"  # the run's wait for it was over before


@dataclass(frozen=True, kw_only=True)
class SignalReceipt:
    """What became of a signal, and the answer that the run has."""

    run_id: str  # of the run
    name: str  # of the signal
    outcome: SignalOutcome
    payload: Any = None  # of the answer; None after a timeout, and for a caller who may not read-payloads
    error: str | None = None  # that the outside system reported in place of an answer
    at: datetime  # UTC: when the answer came, or the wait timed out
    actor: str | None = None  # who gave the answer


class SignalMethods(SchedulerBase):
    def signal(self, run_id: str, name: str, payload: Any = None) -> SignalReceipt:
        """Send a signal to a run: the answer to ``ctx.wait_for(name)`` of its job, also if it comes before the job asks.

        ``payload`` is any JSON value of at most 64 KB. The first signal of a name is the answer: a call that comes later changes nothing,
        and its receipt says what came first. Raises InvalidInput, also for a payload that does not fit the wait's
        schema, NotFound, Conflict (the run has ended), Throttled, Unavailable.

        >>> from datetime import UTC, datetime
        >>> from quarterjack import Registry
        >>> from quarterjack.testing import Harness
        >>> jobs = Registry()
        >>> @jobs.job("orders.approve")
        ... def approve(ctx, payload):
        ...     return ctx.wait_for("approval", timeout=86_400)["by"]
        >>> harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        >>> run = harness.scheduler.submit("orders.approve")
        >>> [run.state.value for run in harness.advance()]
        ['PARKED']
        >>> harness.scheduler.signal(run.id, "approval", {"by": "Ada"}).outcome.value
        'accepted'
        >>> [run.result for run in harness.advance()]
        ['Ada']
        """
        return self._send_signal(run_id, check_name(name, "name"), payload)

    def complete(self, token: str, result: Any = None) -> SignalReceipt:
        """Answer ``ctx.wait_for`` of a job by the token that it got from ``ctx.callback_token(name)``. As ``signal`` otherwise."""
        return self._send_signal(*parse_callback_token(token), result)

    def fail(self, token: str, error: str) -> SignalReceipt:
        """Fail ``ctx.wait_for`` of a job by its callback token: it raises CallbackFailed with ``error`` (1 to 1,000 characters).

        The receipt has ``error``. Otherwise as ``signal``. Raises InvalidInput, NotFound, Conflict, Throttled, Unavailable.
        """
        run_id, name = parse_callback_token(token)
        if not is_text(error, MAX_REASON) or not error.strip():
            raise InvalidInput("error", error, "is not the text of an error", f"use 1 to {MAX_REASON:,} characters")
        return self._send_signal(run_id, name, error, FAILURE)

    def heartbeat(self, token: str) -> Run:
        """Say that what a run waits for goes on, by the callback token: a wait with ``heartbeat=`` ends so long after this call.

        Returns the run; ``wake_at`` is the new end of its wait. A run that has not parked yet stays as it is. Raises InvalidInput,
        NotFound, Conflict (the run has ended, its wait is over or takes no heartbeats), Throttled, Unavailable.
        """
        run_id, name = parse_callback_token(token)
        run = self._access.read_run(run_id, Verb.SIGNAL)
        self._take(RateWord.CHANGES)
        return self._access.run_view(heartbeat(run, name, self._context))

    def _send_signal(self, run_id: str, name: str, payload: Any, channel: str | None = None) -> SignalReceipt:
        run = self._access.read_run(run_id, Verb.SIGNAL)
        text = answer_text(payload, self._pending(payload).text)
        self._take(RateWord.CHANGES)
        found, brought = send_signal(run, name, text, self._context, channel=channel, warn=self.session.on_unknown)
        if brought:
            outcome = SignalOutcome.ACCEPTED
        elif found.payload is None:
            outcome = SignalOutcome.TIMED_OUT
        else:
            is_same = found.payload == text and (found.channel == FAILURE) == (channel == FAILURE)
            outcome = SignalOutcome.REPEATED if is_same else SignalOutcome.ANSWERED
        may_read = brought or self._access.may_read_payloads(run.job)
        told = json.loads(found.payload) if may_read and found.payload is not None else None
        has_failed = found.channel == FAILURE
        return SignalReceipt(
            run_id=run_id,
            name=name,
            outcome=outcome,
            payload=None if has_failed else told,
            error=told if has_failed else None,
            at=from_ms(found.at),
            actor=found.actor,
        )


def answer_text(payload: Any, text: str) -> str:
    """The JSON text of an answer. Raises InvalidInput for one that is too large for its row."""
    if size(text) > INLINE_PAYLOAD:
        remedy = f"keep it within {INLINE_PAYLOAD:,}, or store it and pass its address"
        raise InvalidInput("payload", payload, f"has {size(text):,} bytes of JSON", remedy)
    return text
