"""``quarterjack secrets …``: the secrets of a tenant. Values come by standard input: arguments are seen by others and kept by shells."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from quarterjack import Tenants
from quarterjack.cli.parameters import Yes, matching
from quarterjack.cli.shell import Shell
from quarterjack.ports.secrets import LARGEST

app = typer.Typer(
    help="List, set and delete the secrets that runs of the tenant (--tenant) look up.", no_args_is_help=True
)

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="E.g. crm-token, for ctx.secret('crm-token').")]


def _tenants(shell: Shell) -> Tenants:
    return Tenants(settings=shell.settings, via="cli").acting_as(reason=shell.reason)


@app.command("list")
@matching("the tenant has no secret")
def list_(shell: Shell) -> None:
    """List the secrets of the tenant, without their values."""
    found = _tenants(shell).secrets(shell.settings.tenant)
    shell.list(found, ("name", "version", "changed_at"))
    shell.matched(len(found))


@app.command("set")
def set_(shell: Shell, name: SecretName) -> None:
    """Store a secret, or its new value. It is asked for, or read from standard input: secrets set crm-token < token.txt."""
    _tenants(shell).set_secret(shell.settings.tenant, name, _value(shell))
    shell.answer(
        {"secret": name, "tenant": shell.settings.tenant},
        f"stored; runs of {shell.settings.tenant} see it within five minutes",
    )


@app.command()
def delete(shell: Shell, name: SecretName, *, yes: Yes = False) -> None:
    """Delete a secret: runs that look it up fail."""
    shell.confirm(f"Delete secret {name} of tenant {shell.settings.tenant}", yes=yes)
    _tenants(shell).delete_secret(shell.settings.tenant, name)
    shell.answer({"deleted": name}, "deleted")


def _value(shell: Shell) -> str:
    """What is typed without being shown, or the whole of standard input."""
    if shell.can_ask:
        return str(typer.prompt("Value", hide_input=True, err=True))
    return sys.stdin.buffer.read(2 * LARGEST).decode(
        "utf-8", "surrogateescape"
    )  # what is no text is refused as a value
