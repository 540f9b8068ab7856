"""``quarterjack runs signal``, ``complete``, ``fail``, ``heartbeat``, ``link``, ``links`` and ``revoke-link``: answer runs that wait."""

from __future__ import annotations

from typing import Annotated

import typer

from quarterjack.cli.parameters import RunId, payload_of, read_payload
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import Seconds

Token = Annotated[str, typer.Argument(help="Callback token, as ctx.callback_token(name) returned it.")]
SignalName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the signal, as the job gives it to ctx.wait_for.")
]
_COLUMNS = (
    *("id", "state", Column("name", 1, 20), Column("to", cut=20)),
    *(Column("expires_at", 2), Column("made_by", 4, 20), Column("made_at", 3), Column("payload", 5, 30)),
)


def signal(
    shell: Shell,
    run_id: RunId,
    name: SignalName,
    payload: Annotated[
        str | None, typer.Option(help="The answer: JSON of at most 64 KB, or - for standard input. Default: null.")
    ] = None,
) -> None:
    """Answer a run that waits for a signal, also before it does. The first answer counts; the receipt says which one that is."""
    shell.show(shell.scheduler.signal(run_id, name, **payload_of(payload)))


def complete(
    shell: Shell,
    token: Token,
    result: Annotated[
        str | None, typer.Option(help="The result: JSON of at most 64 KB, or - for standard input. Default: null.")
    ] = None,
) -> None:
    """Complete what a run waits for, by the callback token that its job has handed out."""
    shell.show(shell.scheduler.complete(token, None if result is None else read_payload(result)))


def fail(
    shell: Shell, token: Token, error: Annotated[str, typer.Argument(help="Why it failed: 1 to 1,000 characters.")]
) -> None:
    """Fail what a run waits for, by the callback token that its job has handed out: the wait raises CallbackFailed in the job."""
    shell.show(shell.scheduler.fail(token, error))


def heartbeat(shell: Shell, token: Token) -> None:
    """Say that what a run waits for goes on, by the callback token that its job has handed out."""
    shell.show(shell.scheduler.heartbeat(token))


def make_link(
    shell: Shell,
    run_id: RunId,
    name: SignalName,
    to: Annotated[str, typer.Option(help="For whom the link is, e.g. ada@acme.example. Recorded in the audit log.")],
    base: Annotated[str, typer.Option(help="URL of the console, e.g. https://jobs.example.com/console.")],
    payload: Annotated[
        str | None, typer.Option(help="Answer that the link gives: JSON, or - for standard input. Default: null.")
    ] = None,
    expires_in: Annotated[float, Seconds, typer.Option(help="Time until the link expires.")] = 604_800.0,
) -> None:
    """Make a link by which a person without an account answers a run. Whoever has its URL may give the answer."""
    made = shell.scheduler.signal_link(run_id, name, **payload_of(payload), to=to, base=base, expires_in=expires_in)
    shell.show(made)


def links(shell: Shell, run_id: RunId) -> None:
    """List the links of a run, without their URLs."""
    found = shell.scheduler.list_links(run_id)
    shell.list(found, _COLUMNS)
    if not found:
        shell.remark("the run has no links")


def revoke_link(
    shell: Shell,
    run_id: RunId,
    link: Annotated[str, typer.Argument(metavar="LINK", help="Id of the link, as links prints it.")],
) -> None:
    """Revoke a link: it gives no answer any more. An answer that it gave before stays."""
    shell.show(shell.scheduler.revoke_link(run_id, link))
