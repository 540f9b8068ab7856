"""Which alarms an installation gets: the table, for each part that is there. Nothing here knows the CDK.

An alarm that may be hidden, that has windows or that pages for several parts is a composite alarm over metric alarms that page nobody.
What hides it is its suppressor: CloudWatch sends no message while the suppressor is in alarm, waits ``waits`` minutes for it before it
sends one, and AFTERMATH minutes after its end, as what was late is counted until it leaves the windows. That needs a cause that is in
alarm still when what follows of it begins: the alarms of causes end a minute later than they could.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quarterjack.values import replace

from ..figures import Figure
from .spec import AlarmSpec, BurnWindows, Each, Need

_MOST = 60  # alarms in one rule: CloudWatch takes 100, and 10,240 characters
HOURLY = ("auditor",)  # functions that are called once an hour
AFTERMATH = 40  # minutes: a window of half an hour, and the time until its alarm ends


@dataclass(frozen=True, kw_only=True)
class QueueParts:
    """A queue: its SQS queues, the service of its workers, and whether these are functions."""

    stripes: Sequence[str]  # of all lanes
    low: Sequence[str] = ()  # of these, those of the low lane
    worker: str
    is_declared: bool
    has_function: bool

    def stripes_of(self, each: Each) -> Sequence[str]:
        """Its SQS queues of a kind. That low runs wait in a declared queue is no fault of its workers."""
        if each is Each.DECLARED_STRIPE:
            return [one for one in self.stripes if one not in self.low] if self.is_declared else ()
        return self.low if each is Each.LOW_STRIPE else self.stripes


@dataclass(frozen=True, kw_only=True)
class StackParts:
    """The parts of an installation, by their names without the prefix."""

    queues: Sequence[QueueParts]  # the default one first
    functions: Sequence[str]  # all but those of historian and events, which have alarms of their own
    has: frozenset[Need] = frozenset()

    def instances(self, each: Each) -> Iterator[tuple[str, Mapping[str, str]]]:
        """The parts of a kind: the end of an alarm's name, and the names of its figures' parts."""
        if each is Each.ONCE:
            yield "", {}
        elif each is Each.FUNCTION:
            yield from ((f"-{name}", {"function": name}) for name in self.functions)
        elif each in (Each.STRIPE, Each.DECLARED_STRIPE, Each.LOW_STRIPE):
            for queue in self.queues:
                for one in queue.stripes_of(each):
                    yield _end("work", one), {"stripe": one, "worker": queue.worker}
        else:
            for queue in self.queues:
                if each is not Each.WORKER_FUNCTION or queue.has_function:
                    yield _end("worker", queue.worker), {"worker": queue.worker}
            if each is Each.STARTER:
                yield "-ticker", {"worker": "ticker"}


def _end(kind: str, name: str) -> str:
    """``-gpu`` of ``worker-gpu``; nothing for the default queue."""
    return name.removeprefix(kind)


@dataclass(frozen=True, kw_only=True)
class PlannedMetricAlarm:
    """A metric alarm. ``name``: without the prefix."""

    name: str
    spec: AlarmSpec
    figures: Mapping[str, Figure]  # with the names of their parts
    threshold: float
    period: int  # minutes
    times: int
    out_of: int
    pages: bool


@dataclass(frozen=True, kw_only=True)
class PlannedCompositeAlarm:
    """An alarm over others: any of ``any_of``, of which all have to be in alarm."""

    name: str
    spec: AlarmSpec | None  # None: it sends no page, and hides others
    any_of: Sequence[Sequence[str]]  # names
    suppressor: str | None = None  # name
    waits: int = 0  # minutes

    @property
    def pages(self) -> bool:
        return self.spec is not None


@dataclass
class AlarmPlan:
    """All alarms of an installation; a composite one comes after those that it is made of, and after its suppressor."""

    metric_alarms: list[PlannedMetricAlarm] = field(default_factory=list)
    composites: list[PlannedCompositeAlarm] = field(default_factory=list)

    @property
    def pages(self) -> list[PlannedMetricAlarm | PlannedCompositeAlarm]:
        """The alarms that send a message."""
        return [
            *(alarm for alarm in self.metric_alarms if alarm.pages),
            *(alarm for alarm in self.composites if alarm.pages),
        ]


def planned(specs: Sequence[AlarmSpec], parts: StackParts) -> AlarmPlan:
    """The alarms of these specs for these parts."""
    made = {spec.id: spec for spec in specs if spec.needs is Need.NOTHING or spec.needs in parts.has}
    plan, causes = AlarmPlan(), dict[tuple[str, ...], str]()
    pages = {spec.id: _pages(spec, parts) for spec in made.values()}
    for spec in _causes_first(made):
        hiding = tuple(sorted(name for cause in spec.hidden_by for name in pages.get(cause, ())))
        suppressor = _suppressor(spec, hiding, causes, plan)
        groups: dict[str, list[list[str]]] = {}
        for end, words in parts.instances(spec.each):
            page = spec.id if spec.one_page else spec.id + end
            alarms = list(_conditions(spec, end, words, alone=suppressor is None))
            plan.metric_alarms += [alarm for group in alarms for alarm in group]
            groups.setdefault(page, []).extend([alarm.name for alarm in group] for group in alarms)
        if suppressor is not None or spec.one_page or spec.windows:
            plan.composites += [
                PlannedCompositeAlarm(name=page, spec=spec, any_of=names, suppressor=suppressor, waits=spec.waits)
                for page, names in groups.items()
            ]
    return plan


def _pages(spec: AlarmSpec, parts: StackParts) -> list[str]:
    """The names of the alarms of a spec that page."""
    return list(dict.fromkeys(spec.id if spec.one_page else spec.id + end for end, _ in parts.instances(spec.each)))


def _causes_first(by_id: Mapping[str, AlarmSpec]) -> list[AlarmSpec]:
    """In an order in which each alarm comes after the alarms that hide it."""
    done = dict[str, AlarmSpec]()

    def add(spec: AlarmSpec) -> None:
        for cause in spec.hidden_by:
            if cause in by_id and cause not in done:
                add(by_id[cause])
        done.setdefault(spec.id, spec)

    for spec in by_id.values():
        add(spec)
    return list(done.values())


def _suppressor(
    spec: AlarmSpec, hiding: tuple[str, ...], causes: dict[tuple[str, ...], str], plan: AlarmPlan
) -> str | None:
    """The alarm that hides a spec's: the only one, or a composite one of all of them, once for all specs that they hide."""
    if len(hiding) < 2:
        return hiding[0] if hiding else None
    if (name := causes.get(hiding)) is None:
        name = causes[hiding] = f"causes-of-{spec.id}"
        parts = [hiding[at : at + _MOST] for at in range(0, len(hiding), _MOST)]
        if len(parts) > 1:
            plan.composites += [_any(f"{name}-{number}", part) for number, part in enumerate(parts, 1)]
            hiding = tuple(f"{name}-{number}" for number in range(1, len(parts) + 1))
        plan.composites.append(_any(name, hiding))
    return name


def _any(name: str, alarms: Sequence[str]) -> PlannedCompositeAlarm:
    """An alarm that sends no page: any of these is in alarm."""
    return PlannedCompositeAlarm(name=name, spec=None, any_of=[[one] for one in alarms])


def _conditions(
    spec: AlarmSpec, end: str, words: Mapping[str, str], *, alone: bool
) -> Iterator[list[PlannedMetricAlarm]]:
    """The metric alarms of one part, in groups that have to be in alarm together. ``alone``: nothing hides them."""
    figures = _figures(spec, words)
    end = f"-{next(iter(words.values()))}" if spec.one_page else end  # the page itself ends with no part
    for burn in spec.windows:
        yield [_window(spec, end, figures, burn, minutes) for minutes in (burn.short, burn.long)]
    if words.get("function") in HOURLY:
        spec = spec.by_the_hour
    if not spec.windows:
        pages = alone and not spec.one_page
        yield [
            PlannedMetricAlarm(
                name=spec.id + end + ("" if pages or spec.one_page else "-seen"),
                spec=spec,
                figures=figures,
                threshold=spec.threshold,
                period=spec.period,
                times=spec.times,
                out_of=spec.values,
                pages=pages,
            )
        ]


def _figures(spec: AlarmSpec, words: Mapping[str, str]) -> Mapping[str, Figure]:
    """With the names of a part."""
    return {word: replace(one, part=one.part.format(**words)) for word, one in spec.figures.items()}


def _window(
    spec: AlarmSpec, end: str, figures: Mapping[str, Figure], burn: BurnWindows, minutes: int
) -> PlannedMetricAlarm:
    """The objective's budget is burnt too fast in the last minutes."""
    return PlannedMetricAlarm(
        name=f"{spec.id}{end}-{minutes}m",
        spec=spec,
        figures=figures,
        threshold=round(spec.threshold * burn.rate, 6),
        period=minutes,
        times=1,
        out_of=1,
        pages=False,
    )
