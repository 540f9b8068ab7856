"""``quarterjack restore …``: reconcile tables that were restored to an earlier time, before the first tick."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from quarterjack.cli.parameters import Yes, matching
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import PAST
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.domain.times import to_ms
from quarterjack.fires.context import FireContext
from quarterjack.restore import reconcile as restoring
from quarterjack.restore.steps import ASKS, LOSES, RestoreStep

app = typer.Typer(no_args_is_help=True)

Point = Annotated[datetime, PAST, typer.Option(help="Earliest time that one of the tables was restored to.")]
SameNames = Annotated[
    bool, typer.Option("--same-names", help="The tables have the names of those that they were restored from.")
]
_LISTED = (Column("kind"), Column("target"), Column("why", drop=1))


@dataclass(frozen=True)
class _Shown:
    """A step as it is printed."""

    kind: str
    target: str
    why: str


@app.command()
def plan(shell: Shell, point: Point, *, same_names: SameNames = False) -> None:
    """Show what run would do. Writes nothing."""
    steps = [
        _shown(step)
        for step in restoring.plan(to_ms(point, "point"), _allowed(shell, Verb.RESTORE), same_names=same_names)
    ]
    shell.list(steps, _LISTED)
    if not shell.as_json:
        shell.say(_summary(Counter(step.kind for step in steps)))


@app.command()
def run(shell: Shell, point: Point, *, same_names: SameNames = False, yes: Yes = False) -> None:
    """Reconcile the tables, and then let the ticker tick. After an error or a crash, run it again."""
    context = _allowed(shell, Verb.RESTORE)
    shell.confirm("Stop all processes on these tables first. Reconcile them", yes=yes)
    counts = Counter[str]()
    with shell.progress("steps") as advance:

        def told(step: RestoreStep) -> None:
            counts[str(step.kind)] += 1
            advance(counts.total())

        done = restoring.run(to_ms(point, "point"), context, same_names=same_names, on_step=told)
    shell.answer({"epoch": done.epoch, "steps": dict(counts)}, _summary(counts))
    if any(counts[kind] for kind in ASKS):
        shell.remark("`quarterjack restore undecided` lists the runs that wait for a decision")


@app.command()
@matching("no run waits for a decision")
def undecided(shell: Shell) -> None:
    """List the runs that wait for a decision: `runs retry` starts one, `runs cancel` ends one."""
    found = [
        _Shown(kind=run.job, target=str(run.ref), why=run.reason or "")
        for run in restoring.undecided(_allowed(shell, Verb.READ_RUNS).services)
    ]
    shell.list(
        found, (Column("job", show=lambda each: each.kind), Column("id", show=lambda each: each.target), Column("why"))
    )
    shell.matched(len(found))


def _allowed(shell: Shell, verb: Verb) -> FireContext:
    """The context of a caller who has a verb by a grant of the installation, or where that has no grants. Raises Forbidden."""
    session = shell.scheduler.session
    session.gate.check(INSTALLATION, session.caller, verb)
    return session.context()


def _shown(step: RestoreStep) -> _Shown:
    return _Shown(kind=str(step.kind), target=step.target, why=step.why)


def _summary(counts: Counter[str]) -> str:
    asks, loses = (sum(counts[kind] for kind in kinds) for kinds in (ASKS, LOSES))
    return f"{counts.total()} steps; {asks} leave a decision to the owner, {loses} tell of something that is lost"
