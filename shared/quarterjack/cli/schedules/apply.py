"""``quarterjack apply``, ``export`` and ``schema``: schedules as a package or a file declares them."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from quarterjack.apply import schema as schemas
from quarterjack.apply.document import DeclarationFile, read, write
from quarterjack.apply.plan import (
    ApplyAction,
    ApplyPlan,
    DifferenceKind,
    PayloadChange,
    PlannedChange,
    masked,
    payload_changes,
)
from quarterjack.cli.exits import ExitCode
from quarterjack.cli.parameters import DryRun, Strict, Yes, load_jobs, matching
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.domain.redaction import USUAL, Redact
from quarterjack.domain.schedule import Declaration
from quarterjack.errors import InvalidInput, UnknownJobWarning
from quarterjack.jobs import Registry
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.schedules.applied import declared_in, note_applied

Jobs = Annotated[
    list[str] | None,
    typer.Option("--jobs", help="Package with jobs that no worker has published yet. Implies --strict. Repeatable."),
]

_FILES = (".yaml", ".yml", ".json")
_SIGNS = {
    ApplyAction.CREATE: ("+", "green"),
    ApplyAction.UPDATE: ("~", "yellow"),
    ApplyAction.PRUNE: ("-", "red"),
    ApplyAction.FOREIGN: ("!", "yellow"),
    ApplyAction.REFUSED: ("!", "red"),
}
_LISTED = 50  # differences of a payload, or of tasks, that are shown
_BY_PATH = ("payload", "tasks")  # words whose differences have paths
_SHOWN = 120  # characters of a value in the diff


def apply(
    shell: Shell,
    source: Annotated[
        str,
        typer.Argument(help="Package (acme.jobs) or file (schedules.yaml; - for standard input) with declarations."),
    ],
    jobs: Jobs = None,
    *,
    prune: Annotated[bool, typer.Option("--prune", help="Delete owned schedules that are no longer declared.")] = False,
    adopt: Annotated[bool, typer.Option("--adopt", help="Take over declared schedules that have no owner.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    strict: Strict = False,
) -> None:
    """Create and update the schedules that a package or a file declares; show the differences first.

    It changes only schedules that it owns: they were created by applying this package, or a file with this managed_by. On a terminal
    it asks before it changes anything; elsewhere, as in a pipeline, it asks for --yes only if it would delete schedules.
    """
    scheduler, known, documents = _declared(shell, source, jobs or [], strict=strict)
    plans = [scheduler.compare_declared(found, managed_by=owner, adopt=adopt) for owner, found in documents.items()]
    for plan in plans:
        _show(shell, plan, known, prune=prune)
    failed = sum(plan.count(ApplyAction.REFUSED) + plan.count(ApplyAction.FOREIGN) for plan in plans)
    if not dry_run:
        _confirm(shell, plans, prune=prune, yes=yes)
        failed += sum(_carry_out(shell, scheduler, plan, prune=prune) for plan in plans)
        if not failed and known is not None and source in documents and note_applied(scheduler, source, known):
            # A worker that was at another set has made its last change.
            again = scheduler.compare_declared(documents[source], managed_by=source, adopt=adopt)
            failed += _carry_out(shell, scheduler, again, prune=False)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _confirm(shell: Shell, plans: Sequence[ApplyPlan], *, prune: bool, yes: bool) -> None:
    """Ask once, before the first change. Raises NotConfirmed."""
    deletions = sum(plan.count(ApplyAction.PRUNE) for plan in plans) if prune else 0
    changes = sum(plan.count(act) for plan in plans for act in (ApplyAction.CREATE, ApplyAction.UPDATE))
    if deletions and not changes:
        shell.confirm(f"Delete {_schedules(deletions)}", yes=yes)
    elif deletions:
        shell.confirm(f"Apply {_changes(changes)} and delete {_schedules(deletions)}", yes=yes)
    elif changes and shell.can_ask:
        shell.confirm(f"Apply {_changes(changes)}", yes=yes)


def _changes(number: int) -> str:
    return f"{number} change{'s' if number > 1 else ''}"


def _schedules(number: int) -> str:
    return f"{number} schedule{'s' if number > 1 else ''}"


@matching("no schedule matches")
def export(
    shell: Shell,
    prefix: Annotated[str, typer.Option(help="Only schedules with this name prefix.")] = "",
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
    jobs: Annotated[
        list[str] | None,
        typer.Option("--jobs", help="Package with jobs. A queue that equals its job's is left out. Repeatable."),
    ] = None,
) -> None:
    """Write all schedules as YAML that apply accepts unchanged, one document for each owner."""
    if jobs:
        load_jobs(jobs)
    found = shell.scheduler.export_declared(prefix=prefix)
    documents = [DeclarationFile(declarations=(), managed_by=owner, words=words) for owner, words in found.items()]
    if shell.as_json:
        for document in documents:
            print_json({"managed_by": document.managed_by, "schedules": document.words})
        shell.matched(len(found))
        return
    text = write(documents)
    shell.matched(len(found))
    if output is None:
        sys.stdout.write(text)
        return
    output.write_text(text, encoding="utf-8")
    shell.remark(f"{sum(len(words) for words in found.values())} schedules in {output}")


def schema(shell: Shell) -> None:
    """Print the JSON Schema of the files that apply reads, for completion and checks in editors."""
    if shell.as_json:
        print_json(json.loads(schemas.published()))
    else:
        sys.stdout.write(schemas.published())


def _declared(
    shell: Shell, source: str, jobs: Sequence[str], *, strict: bool
) -> tuple[Scheduler, Registry | None, Mapping[str | None, Sequence[Declaration]]]:
    """A scheduler with the loaded jobs, these, and the declarations by owner."""
    if source == "-" or source.endswith(_FILES) or Path(source).is_file():
        known = load_jobs(jobs) if jobs else None
        scheduler = Scheduler(settings=shell.settings, jobs=known, strict=strict or known is not None)
        documents = read(_text(source), "standard input" if source == "-" else source)
        return scheduler, known, {document.managed_by: document.declarations for document in documents}
    registry = load_jobs([source, *jobs])
    found = declared_in(source, registry)
    if not found:
        raise InvalidInput(
            "source", source, "declares no schedule", "use @schedule(...) or pipeline(...) in it, or give a .yaml file"
        )
    return Scheduler(settings=shell.settings, jobs=registry, strict=True), registry, {source: found}


def _text(source: str) -> str:
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8, or a name that no file has
        raise InvalidInput("source", source, f"cannot be read ({problem})", "check the path and the encoding") from None


def _show(shell: Shell, plan: ApplyPlan, known: Registry | None, *, prune: bool) -> None:
    for change in plan.changes:
        redact = _redact_of(change, known)
        if shell.as_json:
            print_json({"managed_by": plan.managed_by, **_as_record(change, redact)})
        elif change.act is not ApplyAction.UNCHANGED:
            _show_change(shell, change, redact, prune=prune)
        for text in change.warnings:
            shell.warn(f"{change.name}: {text}")
    for text in plan.warnings:
        shell.warn(text)
    counts = ", ".join(f"{plan.count(act)} {act}" for act in ApplyAction if plan.count(act))
    shell.remark(f"{plan.managed_by or 'without an owner'}: {counts or 'nothing declared'}")


def _redact_of(change: PlannedChange, known: Registry | None) -> Redact:
    """The redaction of a change's payloads: that of its present and previous job, if they are loaded, else the usual names."""
    names = {change.job, *(name for name in change.fields.get("job", ()) if name)}
    jobs = [] if known is None else [job for job in map(known.get, names) if job is not None]
    policies = [job.policies.redact for job in jobs] or [USUAL]
    return Redact(
        fields=tuple(dict.fromkeys(name for one in policies for name in one.fields)),
        patterns=tuple(dict.fromkeys(pattern for one in policies for pattern in one.patterns)),
        usual=any(one.usual for one in policies),
    )


def _as_record(change: PlannedChange, redact: Redact) -> dict[str, Any]:
    """A change for programs: with masked payloads, and their differences one by one."""
    shown = {name: value for name, value in values(change).items() if name not in ("declaration", "definition")}
    if "payload" in change.fields:
        before, after = change.fields["payload"]
        shown["fields"] = {**change.fields, "payload": (masked(before, redact), masked(after, redact))}
        shown["payload_changes"] = payload_changes(before, after, redact)
    if "tasks" in change.fields:
        old, new = change.fields["tasks"]
        shown["fields"] = {**shown["fields"], "tasks": (masked(old, redact), masked(new, redact))}
        shown["task_changes"] = payload_changes(old, new, redact, "tasks")
    return shown


def _show_change(shell: Shell, change: PlannedChange, redact: Redact, *, prune: bool) -> None:
    sign, style = _SIGNS[change.act]
    what = f"{change.act} (with --prune)" if change.act is ApplyAction.PRUNE and not prune else str(change.act)
    why = shell.words.text(change.why) or change.job
    if change.act is ApplyAction.CREATE:
        expression, zone = change.fields["expression"][1], change.fields["timezone"][1]
        why = f"{change.job}  {' ; '.join(expression) if isinstance(expression, list) else expression}  {zone}"
    shell.say(f"{sign} {what}  {change.name}  {why}", style=style)
    if change.adopts:
        shell.say("    managed by: none → this")
    for word, pair in change.fields.items() if change.act is ApplyAction.UPDATE else ():
        if word not in _BY_PATH:
            shell.say(f"    {word}: {' → '.join(map(_short, pair))}")
            continue
        found = payload_changes(*pair, redact, word)
        for one in found[:_LISTED]:
            shell.say(f"    {_line_of(one)}")
        if len(found) > _LISTED:
            shell.say(f"    … and {len(found) - _LISTED:,} more differences of the {word}; --json shows all")


def _line_of(change: PayloadChange) -> str:
    match change.kind:
        case DifferenceKind.ADDED:
            return f"+ {change.path}: {_json(change.after)}"
        case DifferenceKind.REMOVED:
            return f"- {change.path}: {_json(change.before)}"
    differs = " (it differs)" if change.before == change.after else ""
    return f"{change.path}: {_json(change.before)} → {_json(change.after)}{differs}"


def _short(value: Any) -> str:
    return "-" if value is None else _json(value)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _carry_out(shell: Shell, scheduler: Scheduler, plan: ApplyPlan, *, prune: bool) -> int:
    """Carry out a plan. Returns the number of failed changes."""
    acts = [ApplyAction.CREATE, ApplyAction.UPDATE, *([ApplyAction.PRUNE] if prune else [])]
    total, begun = sum(map(plan.count, acts)), count()
    with shell.progress("Applying", total) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownJobWarning)  # the plan has said it
        done = scheduler.carry_out(plan, prune=prune, on_change=lambda _: advance(next(begun)))
    for name, why in done.failed.items():
        shell.warn(f"{name}: {why}")
    if total:
        shell.remark(f"{done.done} done, {len(done.failed)} failed")
    return len(done.failed)
