"""A siege from start to end: cloud, proxies, processes, owners, tormentor; then calm, and the verdict."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from quarterjack import Scheduler
from quarterjack.aws import Client
from quarterjack.daemon.roles import run_auditor
from quarterjack.domain.times import SECOND
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import LogFollower, ProcessRole, inherited, variables
from quarterjack.settings import Settings
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.testing.cloud import fresh_settings

from tests.support.chaos.books import Books
from tests.support.chaos.chaos_monkey import Pace, Tormentor
from tests.support.chaos.evidence import Evidence, witness
from tests.support.chaos.fault_injector import CALM, Chances, FaultInjector, Post
from tests.support.chaos.journal import Journal
from tests.support.chaos.owners import Load, Owners
from tests.support.chaos.process_group import ProcessGroup
from tests.support.chaos.proxy import Proxy
from tests.support.chaos.verdict import Verdict, judge

ROOT = Path(__file__).parents[3]
JOBS = ("--jobs", "tests.support.chaos.jobs")
OWNER = "owner"  # the proxy of those who do not talk to the cloud directly
_LOOK = 0.05  # seconds between looks at the processes
_STALL = 1.0  # seconds by which such a look may be late before the machine is to blame


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One siege. Seconds."""

    seed: int
    seconds: float  # of torment
    pace: Pace
    load: Load
    chances: Chances
    period: float  # of a ticker
    patience: float  # afterwards, until everything has come to rest
    workers: int = 3
    letters: int | None = None  # for how long a dead letter is hidden from others; None: as deployed
    short_lease: bool = False
    skew: int = 0  # milliseconds by which clocks of processes may differ
    historian: bool = False  # whether the archive is written


def full(seed: int, seconds: float) -> Plan:
    """With the lease that every installation has."""
    return Plan(
        seed=seed,
        seconds=seconds,
        pace=Pace(lease=LEASE / SECOND, skew=SKEW / SECOND, between=7.0, rest=5.0, brief=15.0),
        load=Load(every=10, copies=6, short=(0.0, 0.5), long=(5.0, 40.0), think=4.0, delay=60.0),
        chances=Chances(),
        period=15.0,
        patience=480.0,  # a dead letter whose undertaker was killed comes back after 360 s
    )


def brief(seed: int, seconds: float) -> Plan:
    """With a lease of a few seconds, so that little time shows much."""
    return Plan(
        seed=seed,
        seconds=seconds,
        pace=Pace(lease=4.0, skew=1.0, between=1.0, rest=0.5, brief=1.5),
        load=Load(every=2, copies=1, short=(0.0, 0.2), long=(0.5, 2.0), think=0.5, delay=4.0),
        chances=Chances(hold=0.003, delay=0.002, held=2.0, repeat=0.6),
        period=1.0,
        patience=60.0,
        workers=2,
        letters=4,
        short_lease=True,
    )


def roles(plan: Plan) -> list[ProcessRole]:
    return [
        *(ProcessRole(f"ticker-{n}", ("ticker", "--period", str(plan.period))) for n in (1, 2)),
        *(ProcessRole(f"worker-{n + 1}", ("worker", *JOBS, "--grace", "3")) for n in range(plan.workers)),
        ProcessRole("undertaker", ("undertaker",)),
        *([ProcessRole("historian", ("historian", "--period", "1"))] * plan.historian),
    ]


@dataclass
class ChaosRun:
    """``say`` is told what happens."""

    plan: Plan
    cloud: LocalCloud
    folder: Path
    say: Callable[[str], object] = lambda text: None
    journal: Journal = field(default_factory=Journal)

    def run(self) -> Verdict:
        """All of it. What a failure needs is in ``folder`` then."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "keyed").mkdir(parents=True)
        with ExitStack() as cleanup:
            self._prepare(cleanup)
            self._wait_until_ready()
            self.owners.create_steady()
            self._rage()
            upto, found = self._calm_down()
            memory = self.books.copy()
        evidence = Evidence(witness(self.folder / "witness.jsonl"), self.journal, self.troupe, self.plan.pace)
        verdict = judge(evidence, self.owners.accepted, memory, upto, found, skew=self.plan.skew)
        self._write_timeline(evidence, verdict)
        return verdict

    def _prepare(self, cleanup: ExitStack) -> None:
        plan, post = self.plan, Post()
        settings = self.settings = fresh_settings(self.cloud)
        if plan.letters is not None:
            hide_letters(settings, plan.letters)
        cast = roles(plan)
        self.mischief = {
            name: FaultInjector(name, plan.seed, CALM, self.journal, post)
            for name in (*(role.name for role in cast), OWNER)
        }
        urls = {
            name: cleanup.enter_context(Proxy(self.cloud.endpoint, of_it)).url for name, of_it in self.mischief.items()
        }
        common = {**inherited(), **self.cloud.environment, **variables(settings)}
        common |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HURRY_LEASE": str(plan.pace.lease)}
        module = "bench.hurried" if plan.short_lease else "quarterjack"
        self.environ = {name: common | {"AWS_ENDPOINT_URL": url} for name, url in urls.items()}
        self.troupe = ProcessGroup(cast, module, self.environ.__getitem__, self.folder)
        cleanup.callback(self.troupe.stop)
        self.books = Books(settings)
        direct = Scheduler(settings=settings)
        faulted = Scheduler(settings=replace(settings, endpoint=urls[OWNER]))
        self.owners = Owners(plan.seed, plan.load, direct, faulted, self.folder, self.journal)

    def _wait_until_ready(self) -> None:
        events = LogFollower(*self.troupe.logs)
        self.troupe.start()
        waiting, deadline = {name for name in self.troupe.names if name.startswith("worker")}, time.monotonic() + 60
        while waiting:
            waiting -= {name for name, event in events.new() if event["event"] == "worker.started"}
            assert time.monotonic() < deadline, f"not ready: {waiting}; see {self.folder}"
            time.sleep(_LOOK)

    def _rage(self) -> None:
        """Everything at once."""
        for mischief in self.mischief.values():
            mischief.chances = self.plan.chances
        self.owners.start()
        began = now = time.time()
        tormentor = Tormentor(self.plan.seed, self.plan.pace, self.troupe, self.mischief, self.journal, now)
        while now < began + self.plan.seconds:
            self.troupe.tend()
            tormentor.look(now)
            now = self._pause(now)

    def _pause(self, before: float) -> float:
        """Wait a moment. If that took long, nobody on this machine could do what it should."""
        time.sleep(_LOOK)
        now = time.time()
        if now - before > _LOOK + _STALL:
            for name in self.troupe.names:
                self.journal.strike("stalled with the machine", name, now - before)
        return now

    def _calm_down(self) -> tuple[float, list[str]]:
        """Nothing goes wrong any more: when that was (UTC seconds), and what was found on the way to rest."""
        for mischief in self.mischief.values():
            mischief.calm()
        self.troupe.thaw_all()
        self.owners.stop()
        found = self._audited("during the siege")
        upto = self.owners.end_schedules()
        self.journal.tell("calm")
        self.say(f"calm after {self.plan.seconds:.0f} s; waiting for what is under way")
        began = now = time.time()
        waiting = [""]
        while waiting and now < began + self.plan.patience:
            for _ in range(10):
                self.troupe.tend()
                now = self._pause(now)
            waiting = self.books.waiting(int(upto * SECOND))
        self.say(f"at rest {now - upto:.0f} s later")
        found += self._audited("at rest")
        found += [f"moved aside: {key}" for key in self.books.quarantined()]
        return upto, [*found, *self.journal.refusals, *self.troupe.unforced]

    def _audited(self, when: str) -> list[str]:
        """What the auditor had to repair."""
        report = run_auditor(self.settings)
        wrong = {
            name: value
            for name, value in vars(report).items()
            if value and name not in ("schedules", "tidied", "resharded")
        }
        return [f"auditor, {when}: {name}={value}" for name, value in wrong.items()]

    def _write_timeline(self, evidence: Evidence, verdict: Verdict) -> None:
        lines = self.journal.timeline()
        lines += [
            (
                line["at"],
                f"{self.troupe.name_of(line['pid'])} job {line['what']} {line['run']} attempt {line['attempt']}",
            )
            for line in evidence.lines
        ]
        lines.sort()
        began = lines[0][0] if lines else 0.0
        told = [f"{at - began:9.3f} {text}" for at, text in lines]
        repeats = [str(repeat) for repeat in verdict.repeats]
        text = [*verdict.violations, "", *repeats, "", f"began {began:.3f} (UTC seconds)", *told]
        (self.folder / "timeline.txt").write_text("\n".join(text) + "\n")


def hide_letters(settings: Settings, seconds: int) -> None:
    """Have the dead-letter queue hide for so long what somebody has received."""
    sqs = Client("sqs", settings)
    url = sqs.call("get_queue_url", QueueName=settings.queue("dead"))["QueueUrl"]
    sqs.call("set_queue_attributes", QueueUrl=url, Attributes={"VisibilityTimeout": str(seconds)})


def conditions() -> str:
    """Where it ran."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
