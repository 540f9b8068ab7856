"""The freeze, secrets, circuit breakers and API keys of the tenant that --tenant names.

Values of secrets are read from standard input, since other users see arguments and shells keep them.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated

import typer

from quarterjack.cli.parameters import Can, GrantedJobs, Reason, Yes, matching
from quarterjack.cli.shell import Shell, print_json, text_of, values
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import COMING
from quarterjack.ports.secrets import LARGEST

secrets = typer.Typer(no_args_is_help=True)
breakers = typer.Typer(no_args_is_help=True)
keys = typer.Typer(no_args_is_help=True)

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret, e.g. crm-token.")]

_BREAKERS = (
    Column("job"),
    Column("state", show=lambda breaker: "OPEN" if breaker.is_open else "counting"),
    Column("opened_at"),
    Column("per_minute"),
    Column("succeeded", drop=2),
    Column("failed", drop=1),
    Column("counted_since", drop=3),
)
_KEYS = (
    Column("id"),
    Column("can", cut=16, show=lambda key: ", ".join(key.can)),
    Column("jobs", drop=1, cut=16, show=lambda key: ", ".join(key.jobs)),
    Column("last_used_on", show=lambda key: "never" if key.last_used_on is None else str(key.last_used_on)),
    Column("expires_at", drop=2),
    Column("created_by", drop=3, cut=16),
    Column("created_at", drop=4),
)


PartJob = Annotated[str | None, typer.Option("--job", help="Only runs of this job.")]
PartQueue = Annotated[str | None, typer.Option("--queue", help="Only runs in this queue.")]
PartFlow = Annotated[str | None, typer.Option("--flow", help="Name of the flow that --key is of.")]
PartKey = Annotated[
    str | None, typer.Option("--key", help="Only runs with this key of the flow of --job, or of --flow.")
]


def freeze(
    shell: Shell,
    until: Annotated[
        datetime, COMING, typer.Argument(help="End of the freeze, e.g. 2h, 'tomorrow 09:00', or 2026-12-24T18:00:00Z.")
    ],
    reason: Reason = None,
    *,
    job: PartJob = None,
    queue: PartQueue = None,
    flow: PartFlow = None,
    key: PartKey = None,
    yes: Yes = False,
) -> None:
    """Start no run of the tenant, or of a job, queue or key, until a time. Running attempts continue; due runs start afterwards."""
    part = {"job": job, "queue": queue, "flow": flow, "key": key}
    named = ", ".join(f"{name} {value}" for name, value in part.items() if value is not None)
    of = f"of {named} of" if named else "of"
    shell.confirm(f"Stop all starts {of} tenant {shell.settings.tenant} until {text_of(until)}", yes=yes)
    shell.scheduler.freeze(until, reason=reason, **part)
    frozen(shell)


def thaw(
    shell: Shell,
    *,
    job: PartJob = None,
    queue: PartQueue = None,
    flow: PartFlow = None,
    key: PartKey = None,
    per_minute: Annotated[
        int, typer.Option(help="Starts a minute of the runs of a job, queue or key that waited.")
    ] = 6_000,
) -> None:
    """End the freeze now: runs of the tenant start within five minutes, those of a job, queue or key at a rate."""
    waiting = shell.scheduler.thaw(job=job, queue=queue, flow=flow, key=key, per_minute=per_minute)
    if (job, queue, flow, key) == (None,) * 4:
        _print_freeze(shell, None)
    else:
        shell.answer({"waiting": waiting}, f"{waiting:,} runs start, {per_minute:,} a minute")


def frozen(shell: Shell) -> None:
    """Print whether the tenant, or a job, queue or key of it, is frozen, and until when."""
    holds = shell.scheduler.holds()
    until = None if holds.freeze is None else holds.freeze.until
    texts = (
        [] if until is None and holds.parts else ["not frozen" if until is None else f"frozen until {text_of(until)}"]
    )
    texts += [f"{one.part}: frozen until {text_of(one.until)}; {one.waiting:,} runs wait" for one in holds.parts]
    parts = {"parts": [values(one) for one in holds.parts]} if holds.parts else {}
    shell.answer({"frozen_until": until} | parts, "\n".join(texts))


def _print_freeze(shell: Shell, until: datetime | None) -> None:
    shell.answer({"frozen_until": until}, "not frozen" if until is None else f"frozen until {text_of(until)}")


@secrets.command("list")
@matching("the tenant has no secret")
def list_secrets(shell: Shell) -> None:
    """List the secrets of the tenant, without their values."""
    found = shell.tenants.secrets(shell.settings.tenant)
    shell.list(found, ("name", "version", "changed_at"))
    shell.matched(len(found))


@secrets.command("set")
def set_secret(shell: Shell, name: SecretName) -> None:
    """Store a secret, or its new value. The value is asked for, or read from standard input: secrets set crm-token < token.txt."""
    shell.tenants.set_secret(shell.settings.tenant, name, _value(shell))
    shell.answer(
        {"secret": name, "tenant": shell.settings.tenant},
        f"stored; runs of {shell.settings.tenant} see it within five minutes",
    )


@secrets.command("delete")
def delete_secret(shell: Shell, name: SecretName, *, yes: Yes = False) -> None:
    """Delete a secret. Runs that read it fail."""
    shell.confirm(f"Delete secret {name} of tenant {shell.settings.tenant}", yes=yes)
    shell.tenants.delete_secret(shell.settings.tenant, name)
    shell.answer({"deleted": name}, "deleted")


def _value(shell: Shell) -> str:
    """The value, typed without echo at a terminal, else the whole standard input."""
    if shell.can_ask:
        return str(typer.prompt("Value", hide_input=True, err=True))
    data = sys.stdin.buffer.read(2 * LARGEST)
    return data.decode("utf-8", "surrogateescape")  # bytes that are no text are refused as a value


@breakers.command("list")
@matching("no job of the tenant fails, or the tenant has no limit breaker_percent")
def list_breakers(shell: Shell) -> None:
    """List the tenant's breakers that are open or count failures. The job '*' stands for all jobs together."""
    found = shell.tenants.breakers(shell.scheduler.tenant)
    shell.list(found, _BREAKERS)
    shell.matched(len(found))


@breakers.command()
def reset(
    shell: Shell,
    job: Annotated[str | None, typer.Argument(help="Job of the breaker. Default: all breakers of the tenant.")] = None,
    *,
    yes: Yes = False,
) -> None:
    """Close a breaker: waiting runs start within three minutes. It opens again if the job still fails."""
    tenant = shell.scheduler.tenant
    shell.confirm(f"Close {'all breakers' if job is None else f'the breaker of {job}'} of tenant {tenant}", yes=yes)
    closed = list(shell.tenants.reset_breaker(tenant, job))
    shell.answer({"closed": closed}, f"closed: {', '.join(closed)}" if closed else "none was open")


@keys.command()
def create(
    shell: Shell,
    name: Annotated[
        str,
        typer.Argument(help="Name of the program that uses the key, e.g. crm. Its actor in the audit log is key:crm."),
    ],
    can: Can,
    jobs: GrantedJobs = None,
    expires: Annotated[
        datetime | None, COMING, typer.Option(help="Expiry, e.g. 90d, or 2027-12-24T18:00:00Z. Default: none.")
    ] = None,
) -> None:
    """Create a key, and print it once: only its hash is stored. A name may have two valid keys, so that one can replace the other."""
    made = shell.tenants.create_key(shell.scheduler.tenant, name, can, jobs=jobs or ("*",), expires_at=expires)
    if shell.as_json:
        print_json({"text": made.text, "key": values(made.key)})
        return
    typer.echo(made.text)  # one line however narrow the terminal is, to be copied
    shell.remark(f"key {made.key.id} of tenant {made.key.tenant}: keep it now, it is shown this once")


@keys.command("list")
@matching("the tenant has no API key")
def list_keys(shell: Shell) -> None:
    """List the tenant's API keys, with their grants and last use."""
    found = shell.tenants.keys(shell.scheduler.tenant)
    shell.list(found, _KEYS)
    shell.matched(len(found))


@keys.command()
def revoke(
    shell: Shell,
    key: Annotated[str, typer.Argument(help="Id of the key, e.g. crm.1.")],
    *,
    yes: Yes = False,
) -> None:
    """Revoke a key. After 5 s no process accepts it."""
    shell.confirm(f"Revoke key {key} of tenant {shell.scheduler.tenant}", yes=yes)
    shell.tenants.revoke_key(shell.scheduler.tenant, key)
    shell.answer({"revoked": key}, "revoked; after 5 s no process accepts it")
