"""The figures of a worker, in a function and in a process: of attempts that begin, and of messages that are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quarterjack.domain.message import Message
from quarterjack.domain.policies import Policies, Priority
from quarterjack.domain.run import RunState
from quarterjack.domain.times import SECOND
from quarterjack.signals.catalogue import METRICS
from quarterjack.signals.measurement import Kind, Measurement, Metered
from quarterjack.state.run_spec import RunSpec
from quarterjack.state.start import delay_for
from quarterjack.worker.admission.refused import NO_WORKER
from quarterjack.worker.context import Done, KnownJobs
from quarterjack.worker.stages import Action, AnyMessage, LeasedRun, Outcome, ReceivedMessage

LATE_START = 2 * SECOND  # after it was due, a first attempt begins late
_STATES = {
    RunState.SUCCEEDED: "Succeeded",
    RunState.RETRYING: "Retried",
    RunState.CONTINUED: "Continued",
    RunState.PARKED: "Parked",
    RunState.CANCELLED: "Cancelled",
    RunState.DEAD: "Failed",
    RunState.LOST: "Lost",
    RunState.SHADOWED: "Shadowed",
}
_OVER = (RunState.SUCCEEDED, RunState.CANCELLED, RunState.DEAD, RunState.LOST)
_FAILED = (RunState.RETRYING, RunState.DEAD)  # an attempt that ends its run so, or leaves it so, has failed
_ACTIONS = {
    Action.POSTPONED: "Postponed",
    Action.KEPT: "Kept",
    Action.UNREADABLE: "Unreadable",
    Action.REJECTED: "Rejected",
}
_REFUSED = (Action.REFUSED, Action.WAITING, Action.LOST)

Figures = dict[str, list[float]]  # values by name; of a counter, what is to be added up


@dataclass(frozen=True)
class WorkerFigures:
    """Makes the measurements.

    ``jobs`` says how runs are delivered; ``metered``: who has figures of its own as well; ``version``: the worker's application version.
    """

    jobs: Callable[[], KnownJobs]
    metered: Metered = field(default_factory=Metered)
    version: Callable[[], str] = str

    def of_starts(self, leased: Iterable[LeasedRun]) -> list[Measurement]:
        """Of attempts that have begun just now."""
        return self._summed((each.message, each.spec, _start(each)) for each in leased)

    def of_ends(self, done: Iterable[Done]) -> list[Measurement]:
        """Of messages that are done."""
        return self._summed((received.message, _spec(received), _end(received, outcome)) for received, outcome in done)

    def _summed(self, parts: Iterable[tuple[Message | None, RunSpec | None, Figures]]) -> list[Measurement]:
        """All figures in total; and as far as the metric is one by job, those of metered jobs and tenants."""
        groups: dict[tuple[tuple[str, str], ...], Figures] = {(): defaultdict(list)}
        for message, spec, figures in parts:
            mine = self._groups(message, spec)
            for name, values in figures.items():
                is_by_job = METRICS[name.partition(".")[0]].by_job
                for group in ((), *mine) if is_by_job else ((),):
                    groups.setdefault(group, defaultdict(list))[name] += values
        return [one for group, figures in groups.items() for one in self._measurements(figures, dict(group))]

    def _measurements(self, figures: Figures, dimensions: Mapping[str, str]) -> Iterator[Measurement]:
        for name, values in figures.items():
            base, _, reason = name.partition(".")
            metric = METRICS[base]
            sent: Sequence[float] = [sum(values)] if metric.kind is Kind.COUNTER else values
            version = self.version() if "version" in metric.names else ""
            names = {"version": version} if version else {}
            yield Measurement(metric=metric, values=sent, reason=reason, dimensions=dimensions, names=names)

    def _groups(self, message: Message | None, spec: RunSpec | None) -> list[tuple[tuple[str, str], ...]]:
        """The dimensions by which a run is counted beside the total."""
        found: list[tuple[tuple[str, str], ...]] = []
        if spec is not None and spec.job in self.metered.jobs:
            found.append((("job", spec.job), ("delivery", self._delivery(spec))))
        if message is not None and message.run.tenant in self.metered.tenants:
            found.append((("tenant", message.run.tenant),))
        return found

    def _delivery(self, spec: RunSpec) -> str:
        job = self.jobs().get(spec.job)
        policies = Policies() if job is None else job.policies
        return str(policies.overridden(spec.overrides).delivery)


def _spec(received: AnyMessage) -> RunSpec | None:
    return received.definition.spec if isinstance(received, ReceivedMessage) else None


def _start(leased: LeasedRun) -> Figures:
    figures: Figures = {"Started": [1]}
    run, began = leased.run, leased.began_at
    visible = _visible_at(leased.received)
    if visible is not None:
        figures["QueueWait"] = [max(began - visible, 0)]
        if leased.received.delivery.lane is Priority.LOW:
            figures["LowWait"] = figures["QueueWait"]
    if leased.should_be_in_time:
        lag = began - run.due
        figures |= {"FirstStarts": [1], "StartLag": [lag]}
        if lag > LATE_START:
            figures["FirstStartsLate"] = [1]
    if leased.rescued:
        figures["LeasesRescued"] = [1]
    if leased.in_flight.permits.uncapped:
        figures["StartedUncapped"] = [1]
    return figures


def _visible_at(received: ReceivedMessage) -> int | None:
    """When it could be received first (UTC ms); None if its time of sending is not known."""
    sent, message = received.delivery.sent_at, received.message
    return sent + delay_for(message.not_before, message.start, sent) * SECOND if sent else None


def _gone_on(outcome: Outcome) -> Figures:
    """Of a message that led to no attempt."""
    if outcome.action in _REFUSED:
        return {"LeaseRefused": [1], f"LeaseRefused.{outcome.why}": [1]}
    figures: Figures = {_ACTIONS[outcome.action]: [1]} if outcome.action in _ACTIONS else {}
    return figures | {"VersionUnserved": [1]} if outcome.why == NO_WORKER else figures


def _end(received: AnyMessage, outcome: Outcome) -> Figures:
    figures: Figures = {}
    if outcome.state in _STATES:
        figures[_STATES[outcome.state]] = [1]
    if outcome.state is RunState.PARKED:
        figures[f"Parked.{outcome.why}"] = [1]
    figures |= _gone_on(outcome)
    if outcome.state is RunState.SHADOWED and outcome.start_lag is not None:
        figures["StartLag"] = [outcome.start_lag]
    if outcome.duration is not None:
        figures |= {"AttemptsEnded": [1], "RunDuration": [max(outcome.duration, 0)]}
        if outcome.state in _FAILED:
            figures["AttemptsFailed"] = [1]
    if outcome.attempt and outcome.state in _OVER:
        figures["AttemptsPerRun"] = [outcome.attempt]
    if received.delivery.receives > 1:
        figures["Redelivered"] = [1]
    return figures
