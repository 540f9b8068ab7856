"""A rule as a revision stores it: with the seed of its jitter, the last of ``max_fires``, and the fires that it takes over."""

from __future__ import annotations

from itertools import chain

from quarterjack.errors import ExpressionError
from quarterjack.timing.rule import Rule, timetable
from quarterjack.timing.rule_fires import check_near
from quarterjack.timing.timetables import LATEST, has, milliseconds, moment
from quarterjack.values import replace, value

MOST_PENDING = 25  # fires of earlier rules that a rule stores: each change within a window may add one
MARGIN = (
    60_000  # ms: clocks differ by 20 s at the most, and an owner's change is written within seconds after its ``since``
)
_APART = 1000  # ms by which a pending fire is moved at the most, where another fire of the rule is due at the same time


@value(kw_only=True)
class Taken:
    """The instants that another rule of the same schedule decided, before a rule took over from it.

    An instant moved by a window or jitter is due at its moved time, and the moved times of two rules differ. So instants up to ``at`` are
    due when the earlier rule says: the fires up to ``at`` have been its own, and ``pending`` are still to come. Then no change of a rule
    starts an instant twice, and none is lost. ``pending`` has the instants of the next minute too: a worker whose clock is ahead, or
    that came before the change was written, may have started them.

    .. code-block:: text

        earlier rule   ──o────────────●─────▶ 02:00 is due at 02:40
        later rule     ──o───────●──────────▶ 02:00 would be due at 02:20, before it took over: lost
                         02:00     │ at=02:30: it is pending, and due at 02:40
    """

    at: int  # UTC ms: the instants up to here
    pending: tuple[tuple[int, int], ...] = ()  # UTC ms: instants that are due later than ``at``, and when


def take(rule: Rule, at: int, *, anchor: int, key: str | None) -> Taken:
    """What a rule decided, that another one takes over at ``at`` (UTC ms)."""
    try:
        pending = rule.plan.on_their_way(at, at + MARGIN, anchor, key)
    except ExpressionError:  # everything to come is excluded
        pending = [pair for pair in rule.pending if pair[1] > at]
    return Taken(at=at, pending=tuple(pending))


def pin(
    rule: Rule,
    *,
    anchor: int,
    key: str | None,
    seed: str | None = None,
    since: int | None = None,
    taken: Taken | None = None,
) -> Rule:
    """The rule as a revision stores it that becomes active at ``since`` (UTC ms; None: at the ``anchor``, from which rates count).

    It gets the jitter's ``seed`` (a random text), unless it has one, the instant of the last of ``max_fires``, and what it took over
    from an earlier rule. Raises ``ExpressionError`` if it never fires after ``since``, or first in more than 100 years.
    """
    since = anchor if since is None else since
    for expression in rule.plan.expressions:
        expression.check_portable()
    pinned = replace(rule, seed=rule.seed or seed) if rule.jitter else rule
    pinned = _taking_over(pinned, taken, anchor, key)
    first = timetable(pinned, anchor=anchor, key=key).next(since)
    if first is None:
        problem = f"nothing is due after {moment(since).isoformat()}"
        raise ExpressionError(
            "expression", rule.expression, problem, "give a time to come, or check start, end and exclusions"
        )
    check_near(rule, first, since)
    if rule.max_fires is None or rule.last is not None:
        return pinned
    return replace(pinned, last=pinned.plan.final(anchor, key, since))


def _taking_over(rule: Rule, taken: Taken | None, anchor: int, key: str | None) -> Rule:
    """The rule with what it takes over."""
    if taken is None:
        return replace(rule, decided=None, pending=()) if rule.decided is not None or rule.pending else rule
    early = [at for instant, at in taken.pending if instant <= taken.at]
    if len(early) > MOST_PENDING:
        field, until = "window" if rule.window else "jitter", moment(min(early))
        problem = f"{len(early)} fires of earlier rules are still to come: more than {MOST_PENDING}"
        raise ExpressionError(field, getattr(rule, field), problem, f"change it after {until.isoformat()}")
    rule = replace(rule, decided=taken.at if rule.window or rule.jitter else None, pending=())
    differing = replace(rule, pending=_differing(rule, taken, anchor, key))
    return replace(rule, pending=_apart(differing, taken.at, anchor, key)) if differing.pending else rule


def _differing(rule: Rule, taken: Taken, anchor: int, key: str | None) -> tuple[tuple[int, int], ...]:
    """The pending fires without those to come that the rule has, at the same times, or has not at all."""
    if all(instant <= taken.at for instant, _ in taken.pending):
        return taken.pending
    ours = dict(rule.plan.on_their_way(taken.at, taken.at + MARGIN, anchor, key))
    return tuple((instant, at) for instant, at in taken.pending if instant <= taken.at or ours.get(instant, at) != at)


def _apart(rule: Rule, begun: int, anchor: int, key: str | None) -> tuple[tuple[int, int], ...]:
    """The pending fires, none at the time of another fire of the rule, and none after its end: each fire is a run of its own."""
    table, places = rule.plan.own(anchor, key), dict[int, int]()
    end = LATEST if rule.end is None else milliseconds("end", rule.end)
    for instant, moved in rule.pending:
        wanted = min(moved, end)
        near = chain(range(wanted, min(wanted + _APART, end) + 1), range(wanted, begun, -1))
        free = (at for at in near if begun < at and at not in places and not has(table, at))
        places[next(free, moved)] = instant
    return tuple((instant, at) for at, instant in sorted(places.items()))
