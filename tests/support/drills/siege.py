"""A drill and its siege: the load, processes and verdict of ``tests.support.chaos``, with one fault and one procedure in its middle."""

from __future__ import annotations

import math
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from quarterjack.domain.times import SECOND
from quarterjack.local.cloud import LocalCloud

from tests.support.chaos.chaos_run import ChaosRun, Plan, brief
from tests.support.chaos.evidence import Line, witness
from tests.support.chaos.fault_injector import CALM, Fate
from tests.support.chaos.verdict import Verdict
from tests.support.command_line import typed

LATE = 3.0  # seconds after its time at which a start is late: three periods of the ticker
MACHINE = "stalled with the machine"  # may explain a repeat in every drill
_MOST_SECONDS = 60.0  # of a command, and of what a drill waits for


@dataclass(frozen=True, kw_only=True)
class Drill:
    """``act`` breaks something, ``procedure`` does what the runbook says. Both assert their effect."""

    name: str
    done: str  # what was done, in one sentence for the page
    runbook: str  # the name of its page, or the path of another one below docs, as in how-to/size
    act: Callable[[Siege], object]
    procedure: Callable[[Siege], object]
    explains: frozenset[str] = frozenset()  # kinds of blows that may explain a repeat
    before: float = 6.0  # seconds of load before the act
    after: float = 8.0  # seconds of load after the procedure
    plan: Callable[[Plan], Plan] = lambda plan: plan  # changes of the usual plan
    prepare: Callable[[Siege], object] = lambda siege: None  # before the processes start

    @property
    def page(self) -> str:
        """The path of its page below docs, without the ending."""
        return self.runbook if "/" in self.runbook else f"runbooks/{self.runbook}"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a drill came to."""

    drill: Drill
    verdict: Verdict
    violations: list[str]  # of the verdict, and repeats of a kind that the drill does not explain
    under_way: int  # runs that were due and had not ended when the operator began
    seconds: float  # from the operator's first step until all runs are in time again
    commands: list[str]  # of the operator

    @property
    def summary(self) -> str:
        return (
            f"{self.drill.name}: {self.under_way} under way, in time again after {self.seconds:.1f} s; "
            f"{self.verdict.summary}, with those of the drill {len(self.violations)}"
        )


@dataclass
class Siege(ChaosRun):
    """The load of a drill. Acts and procedures call its public methods."""

    drill: Drill = field(kw_only=True)
    commands: list[str] = field(default_factory=list, init=False)
    under_way: int = field(default=0, init=False)
    acted_at: float = field(default=0.0, init=False)  # UTC seconds
    operated_at: float = field(default=0.0, init=False)  # UTC seconds
    whole_at: float = field(default=0.0, init=False)  # UTC seconds

    # What acts and procedures use.

    @property
    def workers(self) -> list[str]:
        return [name for name in self.troupe.names if name.startswith("worker")]

    def go_on(self, seconds: float) -> None:
        """The load goes on for so long."""
        until = time.time() + seconds
        self.wait_for(lambda: time.time() >= until, seconds + _MOST_SECONDS)

    def wait_for(self, condition: Callable[[], bool], seconds: float = _MOST_SECONDS) -> None:
        """The load goes on until the condition holds. Fails if it does not within ``seconds``."""
        now, deadline = time.time(), time.monotonic() + seconds
        while not condition():
            self.troupe.tend()
            now = self._pause(now)
            assert time.monotonic() < deadline, f"{self.drill.name}: it did not happen; see {self.folder}"

    def strike(self, kind: str, name: str, seconds: float = 0.0) -> None:
        """Write down what keeps a process from its work, and for how long: else its repeats are violations."""
        self.journal.strike(kind, name, seconds)

    def afflict(
        self,
        service: str,
        fate: Fate,
        seconds: float,
        *,
        share: float = 1.0,
        about: str = "",
        spared: frozenset[str] = frozenset(),
    ) -> None:
        """For so long this happens to the requests of all processes and of an owner to a service, but not to those ``spared``.

        ``share`` of those that have ``about`` in their text.
        """
        for name, injector in self.mischief.items():
            if name in spared:
                continue
            injector.afflict(service, fate, seconds, share=share, about=about)
            if name in self.troupe.names and not about:
                self.strike(str(fate), name, seconds)

    def submit(self, job: str, count: int) -> list[str]:
        """So many one-offs of a job that are due now; their ids."""
        return self.owners.submit(job, count)

    def kill(self, name: str) -> None:
        """``kill -9``. It stays away until ``start_again``."""
        self.strike("killed", name)
        self.troupe.kill(name, rest=math.inf)

    def stop(self, name: str) -> None:
        """Ask a process to end. It stays away until ``start_again``."""
        self.strike("asked to end", name)
        self.troupe.terminate(name, rest=math.inf)
        self.wait_for(lambda: self.troupe.present[name].child.exit_code is not None)

    def redeploy(self, name: str, *, broken: bool = False, **environ: str) -> None:
        """Ask a process to end, and start it with these variables of its environment, as a deployment does.

        ``broken``: it cannot run with them, so its ends are no violations.
        """
        (self.troupe.broken.add if broken else self.troupe.broken.discard)(name)
        self.environ[name] = self.environ[name] | environ
        self.strike("asked to end", name)
        before = self.troupe.present[name]
        self.troupe.terminate(name, rest=0.0)
        self.wait_for(lambda: self.troupe.present[name] is not before)

    def start_again(self, *names: str) -> None:
        """The operator starts processes with the commands that they had."""
        self.type(
            "quarterjack worker --jobs acme.jobs"
            if names[0] in self.workers
            else f"quarterjack {names[0].partition('-')[0]}"
        )
        for name in names:
            self.troupe.start_again(name)

    def quarterjack(self, *words: str) -> str:
        """Run a command of the runbook against the installation, in a process of its own; what it printed. Its failure is a violation."""
        command = self.type(shlex.join(("quarterjack", *words)).replace(f"{self.folder}/", ""))
        said = self.folder / "operator.log"
        begins = said.stat().st_size if said.exists() else 0
        with said.open("ab") as sink:
            process = typed(self.settings, *words, stdout=sink, stderr=subprocess.STDOUT)
        try:
            self.wait_for(lambda: process.poll() is not None)
        finally:
            process.kill()
        text = said.read_bytes()[begins:].decode()
        if process.returncode:
            self.journal.refuse(f"operator: {command} ended with {process.returncode}: {text[-500:]}")
        return text

    def is_whole(self) -> None:
        """What the drill broke besides the times of starts is as it was, from now on."""
        self.whole_at = time.time()

    def type(self, command: str) -> str:
        """Write down a step of the operator for the page."""
        self.commands.append(command)
        self.journal.tell(f"operator: {command}")
        return command

    # The course of a drill.

    def _prepare(self, cleanup: ExitStack) -> None:
        super()._prepare(cleanup)
        self.drill.prepare(self)

    def _rage(self) -> None:
        """Load; the fault; the operator; load."""
        self.owners.start()
        self.go_on(self.drill.before)
        self.acted_at = time.time()
        self.journal.tell(f"act: {self.drill.name}")
        self.drill.act(self)
        self.operated_at = time.time()
        self.under_way = len(self.books.waiting(int(self.operated_at * SECOND)))
        self.say(f"the operator begins after {self.operated_at - self.acted_at:.0f} s; {self.under_way} runs under way")
        self.drill.procedure(self)
        self.go_on(self.drill.after)

    def conduct(self) -> Result:
        """All of it."""
        verdict = self.run()
        lines = witness(self.folder / "witness.jsonl")
        allowed = self.drill.explains | {MACHINE}
        others = [repeat for repeat in verdict.repeats if repeat.blow is not None and repeat.blow.kind not in allowed]
        return Result(
            drill=self.drill,
            verdict=verdict,
            violations=[*verdict.violations, *(f"not by this drill: {repeat}" for repeat in others)],
            under_way=self.under_way,
            seconds=self._seconds(lines, verdict),
            commands=list(dict.fromkeys(self.commands)),
        )

    def _seconds(self, lines: list[Line], verdict: Verdict) -> float:
        """From the operator's first step until the last start that was late or a repeat, or until ``is_whole``."""
        first: dict[str, Line] = {}
        for line in sorted((line for line in lines if line["what"] == "start"), key=lambda line: float(line["at"])):
            first.setdefault(line["run"], line)
        late = [float(line["at"]) for line in first.values() if line["at"] - line["due"] > LATE]
        again = [float(repeat.again["at"]) for repeat in verdict.repeats]
        return max(0.0, *(at - self.operated_at for at in (*late, *again, self.whole_at)))


def conduct(drill: Drill, cloud: LocalCloud, folder: Path, say: Callable[[str], object] = lambda text: None) -> Result:
    """Run a drill. What a failure needs is in ``folder`` then."""
    usual = brief(1, drill.before + drill.after)
    plan = replace(usual, chances=CALM, load=replace(usual.load, copies=6))
    return Siege(drill.plan(plan), cloud, folder, say, drill=drill).conduct()
