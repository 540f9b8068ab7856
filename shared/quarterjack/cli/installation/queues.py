"""``quarterjack queues …``: what waits in the queues, and whether they are held back."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from quarterjack.cli.parameters import matching
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column
from quarterjack.sdk.history.worker_views import QueueView
from quarterjack.terminal import span

app = typer.Typer(help="Show the queues.", no_args_is_help=True)

_COLUMNS = (
    Column("queue", cut=16),
    Column("lane", drop=3),
    Column("stripe", drop=2),
    Column("waiting"),
    Column("in_flight"),
    Column("delayed", drop=1),
    Column("oldest_age"),
    Column("held", cut=16),
)


@app.command("list")
@matching("there is no queue")
def list_(shell: Shell) -> None:
    """List the queues that exist: what waits in each stripe, for how long, and whether the ticker holds it back."""
    queues = shell.scheduler.queues()
    if shell.as_json:
        shell.list(queues, ())
    else:
        shell.list([line for queue in queues for line in stripe_lines(queue)], _COLUMNS)
    shell.matched(len(queues))


@dataclass(frozen=True, kw_only=True)
class StripeLine:
    """A stripe as a line of the table."""

    queue: str
    lane: str
    stripe: int
    waiting: str
    in_flight: str
    delayed: str
    oldest_age: str
    held: str


def stripe_lines(queue: QueueView) -> list[StripeLine]:
    """The lines of a queue: age and hold are the queue's, and stand in its first."""
    lines = []
    for place, stripe in enumerate(queue.stripes):
        first = place == 0
        lines.append(
            StripeLine(
                queue=queue.name,
                lane=str(stripe.priority),
                stripe=stripe.number,
                waiting=_number(stripe.waiting),
                in_flight=_number(stripe.in_flight),
                delayed=_number(stripe.delayed),
                oldest_age=_age(queue) if first else "",
                held=_held(queue) if first else "",
            )
        )
    return lines


def _number(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _age(queue: QueueView) -> str:
    if queue.oldest_age is None:
        return "unknown"
    return span(queue.oldest_age) if queue.oldest_age else ""


def _held(queue: QueueView) -> str:
    if queue.held is None:
        return "unknown"
    return f"{queue.held_why} since {queue.held_since:%Y-%m-%d %H:%M:%S}Z" if queue.held else ""
