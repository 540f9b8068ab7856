"""What certainly happens in a recorded history: each scene at its second, without faults of its own, among all that the dice bring.

The owner and the worker of a scene see no fault, so what the scene is for happens. Tickers, workers and owners of the dice may come
between any two scenes and go on with what a scene has left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from quarterjack import Scheduler
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.domain.times import DAY, HOUR, SECOND, from_ms
from quarterjack.fires.context import FireContext
from quarterjack.historian import rebuild as rebuilding
from quarterjack.historian.archive import compact_archive
from quarterjack.sdk.views import Run
from quarterjack.state.lease import SKEW
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.tick import dispatch
from quarterjack.worker.delivery.receive import receive
from quarterjack.worker.delivery.visibility import HIDDEN, InFlightMessage
from quarterjack.worker.execution.settle import release_run
from quarterjack.worker.pipeline import run_batch
from quarterjack.worker.stages import AnyMessage

from tests.support.scenes.world import NOON

if TYPE_CHECKING:
    from tests.support.histories.recorded import Recorded

_MANY = 200  # messages that may be before the one that is looked for


class Cast:
    """An owner and a worker without faults."""

    def __init__(self, history: Recorded) -> None:
        self.history, self.stage = history, history.stage
        self.services = replace(self.stage.memory.connect(), wait=lambda seconds: None)
        self.owner = self.of_tenant("acme")
        self.worker = Hand(worker=self._worker("calm"))
        self.hung: dict[str, tuple[Hand, InFlightMessage]] = {}
        self.runs: dict[str, Run] = {}  # by a name of the scene
        self.entry: Any = None  # of the chain that is held back
        self.submitted = 0

    def of_tenant(self, tenant: str) -> Scheduler:
        return Scheduler(tenant, jobs=self.history.jobs, services=self.services, clock=self.clock)

    def clock(self) -> int:
        return self.stage.now

    def _worker(self, name: str) -> Any:
        wait = self.services.wait
        return make_worker(self.services, self.history.jobs, self.clock, wait=wait, name=name)

    def state(self, run: Run | RunRef) -> RunState:
        ref = run if isinstance(run, RunRef) else parse_run_id(run.id)
        row = self.stage.memory.row(ref)
        assert row is not None
        return RunState(str(row["state"]))

    def work_on(self, run: Run) -> None:
        """Take messages off the queue until the run has been worked on, if its message is there."""
        ref = parse_run_id(run.id)
        for received in self._messages(ref):
            run_batch(self.worker.worker, [received])

    def hang_in(self, run: Run) -> InFlightMessage | None:
        """Lease a run, and go no further."""
        hand, kept = Hand(worker=self._worker("hangs")), list[InFlightMessage]()
        for received in self._messages(parse_run_id(run.id), hand):
            executor: Any = SimpleNamespace(run=lambda *_: ())
            run_batch(replace(hand.worker, executor=executor), [received])
            kept.append(received.in_flight)
        return kept[0] if kept else None

    def release(self, in_flight: InFlightMessage) -> None:
        release_run(self._worker("hangs"), in_flight)

    def _messages(self, ref: RunRef, hand: Hand | None = None) -> list[AnyMessage]:
        """The message of a run, if it is visible; the others are visible again."""
        queue, found = self.services.work, list[AnyMessage]()
        others = []
        for _ in range(_MANY):
            raw = queue.receive(most=1, wait=0, visibility=HIDDEN)
            if not raw:
                break
            (received,) = receive((hand or self.worker).worker, raw)
            if received.message is not None and received.message.run == ref:
                found.append(received)
                break
            others.append(raw[0].receipt)
        if others:
            queue.hide(others, 0)
        return found

    def late(self) -> None:
        """Runs that nobody has recorded yet when their hour is over."""
        for _ in range(5):
            self.submitted += 1
            run = self.owner.submit(["work", "frail"][self.submitted % 2], idempotency_key=f"k-late{self.submitted}")
            self.work_on(run)

    def bury(self) -> None:
        bury_all(self.services, self.clock)


class _DiesAtPut(Hook):
    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "put":
            raise Crash
        return ()


def _claimed(cast: Cast) -> None:
    """Schedules whose fires are claimed ahead of their time."""
    cast.owner.create_schedule("z-over", "work", "rate(60 seconds)", tags={"team": "blue"})
    cast.owner.create_schedule("z-superseded", "work", "rate(50 seconds)")
    cast.owner.create_schedule("z-revived", "work", "* * * * *", tags={"team": "red"})
    cast.owner.create_schedule("z-shadow", "work", "rate(45 seconds)", shadow=True)
    cast.owner.create_schedule("z-moody", "moody", "0 0 1 1 *")
    cast.owner.create_schedule("z-line", "work", "0 0 1 1 *", overlap="buffer_all", buffer=5)


def _changed(cast: Cast) -> None:
    cast.owner.update_schedule("z-over", payload={"second": True})
    cast.owner.update_schedule("z-superseded", expression="0 0 1 1 *")
    cast.owner.pause_schedule("z-revived")
    cast.owner.skip_next("z-over")
    cast.runs["trigger"] = cast.owner.trigger("z-over", idempotency_key="z-trigger")


def _held_gap(cast: Cast) -> None:
    """A chain whose entry nobody sees for some minutes."""
    cast.owner.create_schedule("z-gap", "work", "rate(10 seconds)", catch_up="none")
    (cast.entry,) = (
        entry
        for entry in cast.stage.memory.entries()
        if entry.kind is EntryKind.CHAIN and entry.id.startswith("acme/z-gap#")
    )
    cast.services.agenda.remove([cast.entry])


def _gap(cast: Cast) -> None:
    """A ticker whose clock is fast passes fires over, writes their row and dies."""
    dying = replace(cast.stage.memory.connect(_DiesAtPut()), wait=lambda seconds: None)
    with suppress(Crash):
        dispatch([cast.entry], FireContext(services=dying, clock=lambda: cast.stage.now + SKEW))
    if cast.stage.seed % 2 == 0:  # the other half has nobody who repairs what historians do wrong
        spec = rebuilding.RebuildSpec(tenant=None, after=NOON - DAY, upto=NOON + DAY)
        rebuilding.rebuild(spec, cast.services, clock=cast.clock)


def _recounted(cast: Cast) -> None:
    """One whose clock is slow claims some of them."""
    dispatch([cast.entry], FireContext(services=cast.services, clock=lambda: cast.stage.now - SKEW))


def _submitted(cast: Cast) -> None:
    """One-offs, each for something of its own, and workers who come for them at once: some go no further."""
    for name, job, options in _ONE_OFFS:
        cast.runs[name] = cast.owner.submit(job, idempotency_key=f"z-{name}", **options)
    other = cast.of_tenant("bravo")
    cast.runs["of another tenant"] = other.submit("work", idempotency_key="z-other", delay=20)
    cast.runs["of another tenant, later"] = other.submit("work", idempotency_key="z-later", delay=7_200)
    _worked(cast)


_ONE_OFFS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("cancelled", "work", {"delay": 100}),
    ("moved", "work", {"delay": 600}),
    ("hastened", "slow", {}),
    ("patient", "slow", {}),
    ("doomed", "doomed", {}),
    ("lost", "once", {}),
    ("released", "work", {}),
    ("stolen", "work", {}),
    ("cancel-running", "work", {}),
    ("expired", "work", {"deadline": 30}),
    ("sliced", "sliced", {}),
    ("later", "work", {"delay": 3 * 3_600}),
    ("much-later", "work", {"delay": 40 * DAY // SECOND}),
)


def _worked(cast: Cast) -> None:
    for name in ("hastened", "patient", "doomed", "sliced"):
        cast.work_on(cast.runs[name])
    for name in ("lost", "stolen", "expired", "cancel-running"):
        cast.hang_in(cast.runs[name])
    in_flight = cast.hang_in(cast.runs["released"])
    if in_flight is not None:
        cast.release(in_flight)
    cast.bury()


def _waits_for_turn(cast: Cast) -> None:
    first = cast.owner.trigger("z-line", idempotency_key="z-first")
    cast.hang_in(first)
    second = cast.owner.trigger("z-line", idempotency_key="z-second")
    cast.work_on(second)


def _failing(cast: Cast) -> None:
    """An incident begins."""
    cast.work_on(cast.owner.trigger("z-moody", idempotency_key="z-fails"))
    cast.bury()


def _mended(cast: Cast) -> None:
    """A success ends it, as soon as a ticker sees it."""
    cast.history.is_moody = False
    cast.work_on(cast.owner.trigger("z-moody", idempotency_key="z-mended"))


def _parked(cast: Cast) -> None:
    """Two runs wait for a signal."""
    for name in ("signalled", "in-vain"):
        cast.runs[name] = cast.owner.submit("asks", idempotency_key=f"z-{name}")
        cast.work_on(cast.runs[name])


def _signalled(cast: Cast) -> None:
    """One gets it. The other waits until its timeout."""
    cast.owner.signal(cast.runs["signalled"].id, "go", "yes")


def _acts(cast: Cast) -> None:
    """Owners act on single runs."""
    if cast.state(cast.runs["hastened"]) is RunState.RETRYING:
        cast.owner.retry_run(cast.runs["hastened"].id)
    cast.owner.reschedule(cast.runs["moved"].id, at=from_ms(cast.stage.now + 200 * SECOND))
    for name in ("cancelled", "cancel-running"):
        cast.owner.cancel_run(cast.runs[name].id)


def _again(cast: Cast) -> None:
    cast.bury()
    if cast.state(cast.runs["doomed"]) is RunState.DEAD:
        cast.owner.redrive(job="doomed", rate=1_000.0)
    done = [run for run in cast.stage.memory.runs() if run.state is RunState.SUCCEEDED and run.ref.tenant == "acme"]
    if done:
        cast.owner.replay_run(str(done[0].ref), idempotency_key="z-replay")


def _revived(cast: Cast) -> None:
    cast.owner.resume_schedule("z-revived")
    start, end = from_ms(NOON), from_ms(cast.stage.now)
    cast.owner.backfill("z-revived", start, end, current=True, dry_run=False)


def _compacted(cast: Cast) -> None:
    """The archive is compacted as if the hour were over, by a process that dies at its first write, and by one that does not."""
    for services in (cast.stage.memory.connect(_DiesAtPut()), cast.services):
        with suppress(Crash):
            compact_archive(services.archive, clock=lambda: cast.stage.now + 2 * HOUR, budget=HOUR)


def _expired(cast: Cast) -> None:
    """DynamoDB removes rows of one-offs that ended a while ago, and their attempts stay a little longer."""
    cast.history.expire(lambda run: run.ref.is_one_off and run.ref.key.startswith("k"))


def _tagged(cast: Cast) -> None:
    """Tags change without a revision."""
    cast.owner.update_schedule("z-over", tags={"team": "green"})


SCENES: tuple[tuple[int, Callable[[Cast], None]], ...] = (
    (5, _claimed),
    (9, _submitted),
    (14, _held_gap),
    (16, _changed),
    (20, _waits_for_turn),
    (24, _acts),
    (26, _failing),
    (40, _parked),
    (70, _again),
    (80, _signalled),
    (110, _mended),
    (170, _revived),
    (200, _tagged),
    (205, _expired),
    (230, _compacted),
    (290, _gap),
    (292, _recounted),
    (340, _expired),
)
TAGS = {"z-over": [{"team": "blue"}, {"team": "green"}], "z-revived": [{"team": "red"}]}
