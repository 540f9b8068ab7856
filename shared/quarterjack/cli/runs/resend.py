"""``quarterjack resend``: send waiting runs to the work queues again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from quarterjack.cli.parameters import Cursor, DryRun, matching
from quarterjack.cli.shell import Advance, Shell, stop_on_signals, values
from quarterjack.cli.typed import EITHER
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.history.workers import Resent


@matching("no run should have a message in a queue now: nothing was lost, or it ended")
def resend(
    shell: Shell,
    queue: Annotated[str | None, typer.Option(help="Only runs of this queue, e.g. default.")] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.")] = None,
    due_before: Annotated[
        datetime | None, EITHER, typer.Option(help="Only runs that are due before this time, e.g. now.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Maximum number of messages per second.")] = 50.0,
    limit: Annotated[int | None, typer.Option(help="Maximum number of messages.")] = None,
    cursor: Cursor = None,
    *,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Of every tenant, not only of one.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Send waiting runs to the work queues again, after a queue was purged, deleted or made anew.

    Reads the whole ledger. No run starts twice by it. Ctrl-C ends it between two messages, and the printed cursor goes on.
    """
    with stop_on_signals() as stop, shell.progress("sending") as advance:
        last = _Last(advance)
        try:
            done = shell.scheduler.resend(
                all_tenants=all_tenants,
                queue=queue,
                job=job,
                due_before=due_before,
                dry_run=dry_run,
                rate=rate,
                limit=limit,
                cursor=cursor,
                stop=stop,
                on_progress=last,
            )
        except QuarterjackError:
            if last.seen is not None and last.seen.cursor is not None:
                shell.warn(f"{last.seen.count:,} messages were sent; {shell.continued(last.seen.cursor)} goes on")
            raise
    shell.answer(values(done) | {"count": done.count}, _told(done))
    if done.cursor is not None:
        shell.remark(f"the ledger is not read to its end: {shell.continued(done.cursor)} goes on")
    if done.refused or done.unread:
        shell.warn("some were left out, and still wait: the same command without --cursor sends them")
    shell.matched(done.count + done.in_line + sum(done.refused.values()))


class _Last:
    """Keeps the last progress, and shows it."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self.seen: Resent | None = None

    def __call__(self, progress: Resent) -> None:
        self.seen = progress
        self._advance(progress.count)


def _told(done: Resent) -> str:
    verb = "would be sent" if done.dry_run else "sent"
    lines = [f"{count:>12,}  {verb} to queue {name}" for name, count in sorted(done.sent.items())]
    lines += [f"{count:>12,}  not accepted by queue {name}" for name, count in sorted(done.refused.items())]
    counts = {"wait for a slot of a concurrency cap": done.in_line, "could not be read": done.unread}
    lines += [f"{count:>12,}  {what}" for what, count in counts.items() if count]
    return "\n".join(lines or [f"{0:>12,}  {verb}"])
