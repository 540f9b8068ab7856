"""Parked histories: jobs that sleep, wait for signals and gather children, while processes die, signals come early, late and twice, and
owners cancel.

The oracle knows what each job asked for and was answered, and what each sender was told: a job that is called again gets the same answers,
a signal is answered once for job and senders alike, a gathered child has ended, no child of a run that was cancelled while it was parked
starts after that call, and every run comes to its end.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from quarterjack import Context, Retry, Scheduler, SignalReceipt, Submission
from quarterjack.domain.names import one_off_ref, parse_run_id
from quarterjack.domain.policies import OnDuplicate
from quarterjack.domain.run import RunState
from quarterjack.domain.times import HOUR
from quarterjack.errors import ChildFailed, Permanent, WaitTimedOut
from quarterjack.state.waits.window import map_ref
from quarterjack.testing import Detail

from tests.support.histories.history import History
from tests.support.histories.simulator import Faults, Process

SIGNALS = ("a", "b")
_LONGEST = 3 * HOUR  # ms: of a plan, with checks by its timer
Plan = list[list[Any]]


class Parked(History):
    """One seed, one history."""

    expressions: tuple[str, ...] = ("rate(7 minutes)", "rate(50 minutes)")
    between: tuple[int, ...] = (0, 1, 5, 20)
    quiet = 5 * HOUR  # the timer of a long wait checks it once an hour

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.wrong: list[str] = []
        self.answers: dict[str, list[Any]] = defaultdict(list)  # by run: what its job was answered, request by request
        self.told: dict[tuple[str, str], list[tuple[SignalReceipt, int]]] = defaultdict(
            list
        )  # with the number that was sent
        self.got: dict[tuple[str, str], Any] = {}  # by run and signal: the number, or "late"
        self.asked: set[str] = set()  # runs whose cancellation was asked for
        self.cancelled: dict[str, int] = {}  # parked runs, and UTC ms at which their cancellation had returned
        self.sent = 0
        self.jobs.job("plan", retry=Retry(max_attempts=50, base=5.0, cap=30.0))(self._plan)
        self.jobs.job("leaf", retry=Retry(max_attempts=50, base=5.0, cap=30.0))(self._leaf)
        self.jobs.job("counted", retry=Retry(max_attempts=50, base=5.0, cap=30.0))(self._counted)
        self.jobs.job("sole", retry=Retry(max_attempts=50, base=5.0, cap=30.0))(self._sole)
        self.windows: dict[str, int] = {}  # items at a time, by the place of a map
        self.whole: set[str] = set()  # runs after batches all of whose items were accepted
        self.stage.observer = self._look

    def _look(self, process: Process, detail: Detail) -> None:
        self.seen.look(process, detail)
        if detail.verb in ("park", "wake"):
            self.stage.count(f"{detail.verb}s")

    # Jobs.

    def _plan(self, ctx: Context, payload: Plan) -> object:
        """Ask for what the payload says, one request after the other. Each answer must be that of earlier calls."""
        self._begins(ctx)
        answers = self.answers[ctx.run_id]
        for place, request in enumerate(payload):
            answer = self._request(ctx, place, request)
            if place == len(answers):
                answers.append(answer)
            elif answers[place] != answer:
                self.wrong.append(f"answered anew: {ctx.run_id} {request} {answers[place]} {answer}")
            self.stage.yield_until(self.stage.now + self.dice.choice([0, 0, 500, 5_000]))
            if self.dice.random() < 0.03 and ctx.attempt < 10:
                raise RuntimeError("not this time")
        return len(payload)

    def _request(self, ctx: Context, place: int, request: list[Any]) -> Any:
        match request:
            case ["sleep", seconds]:
                began = self.stage.now
                ctx.sleep(seconds)
                return None if began <= self.stage.now else "early"
            case ["wait", name, timeout]:
                return self._wait_for(ctx, name, timeout)
            case ["gather", jobs]:
                children = [ctx.submit(job, plan, step=f"{place}.{number}") for number, (job, plan) in enumerate(jobs)]
                found = ctx.gather(children, return_exceptions=True)
                for child in children:
                    run = self.stage.memory.row(parse_run_id(child.run_id))
                    if run is None or RunState(run["state"]) not in (
                        RunState.SUCCEEDED,
                        RunState.DEAD,
                        RunState.CANCELLED,
                    ):
                        self.wrong.append(f"gathered alive: {child.run_id} of {ctx.run_id}, {run and run['state']}")
                return [one.state if isinstance(one, ChildFailed) else one for one in found]
            case ["map", items, at_a_time]:
                return self._map(ctx, place, items, at_a_time)
        raise AssertionError(request)

    def _map(self, ctx: Context, place: int, items: list[Any], at_a_time: int) -> Any:
        step = f"m{place}"
        self.windows[str(map_ref(parse_run_id(ctx.run_id), step)).rpartition("#")[0]] = at_a_time
        results = ctx.map("leaf", items, at_a_time=at_a_time, return_exceptions=True, step=step)
        found = [one.state if isinstance(one, ChildFailed) else one for one in results]
        self.stage.count("maps")
        right = [("DEAD", "CANCELLED") if item == "bad" else (item, "CANCELLED") for item in items]
        if len(found) != len(items) or any(one not in wanted for one, wanted in zip(found, right, strict=True)):
            self.wrong.append(f"mapped otherwise: {ctx.run_id} {step} {items} {found}")
        return found

    def _wait_for(self, ctx: Context, name: str, timeout: float) -> Any:
        try:
            answer = ctx.wait_for(name, timeout=timeout)
        except WaitTimedOut:
            answer = "late"
        if self.got.setdefault((ctx.run_id, name), answer) != answer:
            self.wrong.append(f"another answer: {ctx.run_id} {name} {self.got[ctx.run_id, name]} {answer}")
        return answer

    def _leaf(self, ctx: Context, payload: object) -> object:
        self._job(ctx, payload)
        self._look_at_window(ctx.run_id)
        if payload == "bad":
            raise Permanent("as it was told")
        return payload

    def _look_at_window(self, run_id: str) -> None:
        """Never are more items of a map unfinished than it has at a time."""
        place = run_id.rpartition(":")[0]
        if place not in self.windows:
            return
        alive = [
            run
            for run in self.stage.memory.runs()
            if str(run.ref).startswith(f"{place}:") and not run.is_terminal and not run.cancel_requested
        ]
        self.stage.count("windows full", len(alive) == self.windows[place])
        if len(alive) > self.windows[place]:
            self.wrong.append(f"window too wide: {run_id} {len(alive)} of {self.windows[place]}")

    # Owners.

    def _drawn_plan(self, depth: int = 0) -> Plan:
        return [self._drawn(depth) for _ in range(self.dice.randint(1, 4))]

    def _drawn(self, depth: int) -> list[Any]:
        kind = self.dice.choice(("sleep", "wait", "wait", "gather", "map"))
        if kind == "map":
            items = [self.dice.choice((1, 2, 2, 2, "bad")) for _ in range(self.dice.randint(2, 7))]
            return ["map", items, self.dice.randint(1, 3)]
        if kind == "sleep":
            return ["sleep", self.dice.choice((0, 1, 30, 300, 1_200))]
        if kind == "wait":
            return ["wait", self.dice.choice(SIGNALS), self.dice.choice((20, 120, 600, 1_500))]
        jobs: list[list[Any]] = [["leaf", self.dice.choice((1, 2, "bad"))] for _ in range(self.dice.randint(1, 3))]
        if depth == 0 and self.dice.random() < 0.3:
            jobs.append(["plan", self._drawn_plan(1)])
        return ["gather", jobs]

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        dice = self.dice.random()
        if name == "once" or dice < 0.15:
            super()._act(act, owner, name)
        elif dice < 0.25:
            owner.create_schedule(
                f"{name}-waits", "plan", self.dice.choice(self.expressions), payload=self._drawn_plan()
            )
        elif dice < 0.45:
            self.one_offs += 1
            key = f"{name}{self.one_offs}"
            run = owner.submit("plan", self._drawn_plan(), delay=self.dice.choice((0, 0, 30, 300)), idempotency_key=key)
            self.stage.count("plans")
            del run
            self.seen.submitted.append((one_off_ref("acme", key), self.stage.now))
        elif dice < 0.52:
            self._submit_unique(owner)
        elif dice < 0.56:
            self._submit_all(owner)
        elif dice < 0.95:
            self._signal(owner)
        else:
            self._cancel(owner)

    def _submit_unique(self, owner: Scheduler) -> None:
        what = self.dice.choice([*OnDuplicate])
        self.sent += 1
        owner.submit("sole", self.sent, unique=self.dice.choice(SIGNALS), on_duplicate=what)
        self.stage.count(f"unique {what}")

    def _submit_all(self, owner: Scheduler) -> None:
        """Some batches, each submitted again and again."""
        key = f"batch{self.dice.randint(1, 3)}"
        items = [Submission("leaf", number) for number in range(1, 8)]
        done = owner.submit_all(items, idempotency_key=key, on_end="counted")
        self.stage.count("batches whole", not done.refused)
        if not done.refused:
            self.whole.add(f"acme/~{key}#once")

    def _counted(self, ctx: Context, payload: dict[str, Any]) -> None:
        self._begins(ctx)
        ended = sum(payload[word] for word in ("succeeded", "failed", "cancelled", "refused"))
        if ended != payload["items"]:
            self.wrong.append(f"batch not whole: {ctx.run_id} {payload}")
        alive = [run for run in self.stage.memory.runs() if run.parent == ctx.run_id and not run.is_terminal]
        if alive:
            self.wrong.append(f"batch over early: {ctx.run_id} {[str(run.ref) for run in alive]}")

    def _sole(self, ctx: Context, payload: int) -> None:
        """At most one of its key at a time."""
        self._begins(ctx)
        runs = {str(run.ref): run for run in self.stage.memory.runs() if run.job == "sole"}
        key = runs[ctx.run_id].unique
        others = [
            run for run in runs.values() if run.unique == key and str(run.ref) != ctx.run_id and not run.is_terminal
        ]
        if any(run.state is not RunState.PARKED for run in others) or len(others) > 1:
            self.wrong.append(f"not alone: {ctx.run_id} {[(str(run.ref), run.state) for run in others]}")
        self.stage.yield_until(self.stage.now + self.dice.choice((0, 5_000, 40_000)))

    def _some_run(self) -> str | None:
        runs = [run for run in self.stage.memory.runs() if run.job == "plan"]
        lively = [run for run in runs if not run.is_terminal]
        found = lively if lively and self.dice.random() < 0.9 else runs
        return str(self.dice.choice(found).ref) if found else None

    def _signal(self, owner: Scheduler) -> None:
        run_id = self._some_run()
        if run_id is None:
            return
        name = self.dice.choice(SIGNALS)
        for _ in range(self.dice.choice((1, 1, 2))):
            self.sent += 1
            number = self.sent
            receipt = owner.signal(run_id, name, number)
            self.told[run_id, name].append((receipt, number))
            self.stage.count(f"signals {receipt.outcome}")

    def _cancel(self, owner: Scheduler) -> None:
        run_id = self._some_run()
        if run_id is None:
            return
        self.asked.add(run_id)
        was = self.stage.memory.row(parse_run_id(run_id))
        done = owner.cancel_run(run_id)
        if was is not None and was["state"] == RunState.PARKED and done.state is RunState.CANCELLED:
            self.cancelled.setdefault(run_id, self.stage.now)
            self.stage.count("cancelled parked")

    # Verdicts.

    def _violations(self) -> list[str]:
        found = [text for text in super()._violations() if not self._is_expected(text)]
        return [*found, *self.wrong, *self._answered_otherwise(), *self._after_cancel()]

    def _is_expected(self, text: str) -> bool:
        """What the oracle of plain histories does not know: runs that an owner cancelled, and plans that take hours."""
        word, _, about = text.partition(": ")
        run_id = about.split()[0]
        if word in ("lost", "lost one-off"):
            return run_id in self.asked
        return word == "unfinished" and self._is_young(run_id)

    def _is_young(self, run_id: str) -> bool:
        row = self.stage.memory.row(parse_run_id(run_id))
        if row is not None and row["job"] == "counted" and run_id not in self.whole:
            return True  # nobody submitted its last items
        return row is not None and row["due"] > self.stage.now - _LONGEST

    def _answered_otherwise(self) -> list[str]:
        """Senders were told what the job was answered."""
        found = []
        for (run_id, name), receipts in self.told.items():
            told = {"late" if receipt.outcome == "timed-out" else receipt.payload for receipt, _ in receipts}
            told |= {number for receipt, number in receipts if receipt.outcome == "accepted"}
            if len(told | ({self.got[run_id, name]} if (run_id, name) in self.got else set())) > 1:
                found.append(f"answered twice: {run_id} {name} {told} {self.got.get((run_id, name))}")
        return found

    def _after_cancel(self) -> list[str]:
        found = []
        for run in self.stage.memory.runs():
            above = run.parent or ""
            at = self.cancelled.get(above)
            leases = [lease for (ref, _), lease in self.seen.leases.items() if ref == run.ref]
            fences = {lease.fence for lease in leases if at is not None and lease.at > at}
            if fences and (1 in fences or not above.startswith("acme/~batch")):  # what a batch has begun goes on
                found.append(f"after cancel: {run.ref} of {run.parent}")
        return found
