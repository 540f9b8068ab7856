"""``quarterjack tenants …``: which tenants there are, what they may run, and who may act for them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quarterjack import Tenant
from quarterjack.cli.installation.erasing import erase
from quarterjack.cli.parameters import Can, GrantedJobs, Reason, Yes, matching
from quarterjack.cli.shell import Shell
from quarterjack.cli.tables import Column
from quarterjack.domain.tenants.limits import typed_limits
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput

app = typer.Typer(no_args_is_help=True)

TenantName = Annotated[
    str,
    typer.Argument(
        metavar="TENANT",
        help=f"Name of the tenant; '~gold': the tier gold; '{INSTALLATION}': the defaults and grants of all.",
    ),
]
OneTenant = Annotated[str, typer.Argument(metavar="TENANT", help="Name of the tenant.")]
Jobs = Annotated[list[str] | None, typer.Option(help="Name or pattern of a job, e.g. 'report.*'. Repeatable.")]
TierOf = Annotated[
    str | None, typer.Option(help="Tier whose jobs, queue and limits count where it has none of its own.")
]
QueueOf = Annotated[str | None, typer.Option(help="Queue of runs for which neither job nor caller names one.")]
Description = Annotated[str | None, typer.Option(help="Text for people: whose it is.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER", help="One limit, e.g. runs_per_second=10; 'default': the installation's. Repeatable."
    ),
]
To = Annotated[
    str,
    typer.Option(
        metavar="PRINCIPAL", help="As the audit shows it, or a pattern: app:alice@acme, 'iam:arn:aws:…:role/*'."
    ),
]

_COLUMNS = (
    Column("name"),
    Column("state"),
    Column("jobs", drop=2, cut=24, show=lambda tenant: "" if tenant.jobs is None else ", ".join(tenant.jobs) or "none"),
    Column("grants", drop=3, show=lambda tenant: str(len(tenant.grants))),
    Column("tier", drop=5),
    Column("queue", drop=4),
    Column("suspension_reason", drop=1, cut=24),
    Column("description", drop=2, cut=24),
)


@app.command("list")
@matching("no tenant has a profile: each may run all jobs")
def list_(shell: Shell) -> None:
    """List the tenants that have a profile, and the defaults of those that have none."""
    found = shell.tenants.list()
    shell.list(found, _COLUMNS)
    shell.matched(len(found))


@app.command()
def show(shell: Shell, tenant: TenantName) -> None:
    """Show the profile of a tenant."""
    _show(shell, shell.tenants.get(tenant))


@app.command()
def figures(
    shell: Shell,
    tenant: OneTenant,
    minutes: Annotated[int, typer.Option(help="The last minutes, at most 60.")] = 5,
) -> None:
    """Show what a tenant does and has left: rate, lateness, failures, backlog, limits."""
    shell.show(shell.tenants.figures(tenant, minutes=minutes))


@app.command()
def create(
    shell: Shell,
    tenant: TenantName,
    jobs: Jobs = None,
    tier: TierOf = None,
    queue: QueueOf = None,
    description: Description = None,
    limit: Limit = None,
) -> None:
    """Give a tenant a profile. Without --jobs it may run those of the installation, or all."""
    limits = typed_limits(limit or ())
    _show(
        shell, shell.tenants.create(tenant, jobs=jobs, tier=tier, queue=queue, description=description, limits=limits)
    )


@app.command("set")
def set_(
    shell: Shell,
    tenant: TenantName,
    jobs: Jobs = None,
    tier: TierOf = None,
    queue: QueueOf = None,
    description: Description = None,
    limit: Limit = None,
    add_job: Annotated[list[str] | None, typer.Option(help="One more job that it may run. Repeatable.")] = None,
    remove_job: Annotated[list[str] | None, typer.Option(help="One job less, as it is listed. Repeatable.")] = None,
    expected_version: Annotated[int | None, typer.Option(help="Refuse if the profile has another version.")] = None,
    *,
    default_jobs: Annotated[
        bool, typer.Option("--default-jobs", help="The jobs of the installation, or all, instead of a list.")
    ] = False,
    no_jobs: Annotated[bool, typer.Option("--no-jobs", help="It may run no job at all.")] = False,
    no_tier: Annotated[bool, typer.Option("--no-tier", help="It is of no tier.")] = False,
    default_queue: Annotated[bool, typer.Option("--default-queue", help="The queue of the installation.")] = False,
    no_description: Annotated[bool, typer.Option("--no-description", help="Remove the description.")] = False,
) -> None:
    """Change the given parts of a tenant's profile; a tenant without one gets one. All processes follow within 5 s."""
    _one_of("jobs", jobs=jobs, default_jobs=default_jobs, no_jobs=no_jobs)
    _one_of("tier", tier=tier, no_tier=no_tier)
    _one_of("queue", queue=queue, default_queue=default_queue)
    _one_of("description", description=description, no_description=no_description)
    given: dict[str, Any] = {"jobs": jobs or None, "tier": tier, "queue": queue, "description": description}
    given = {name: value for name, value in given.items() if value is not None}
    if default_jobs or no_jobs:
        given["jobs"] = [] if no_jobs else None
    if no_tier:
        given["tier"] = None
    if default_queue:
        given["queue"] = None
    if no_description:
        given["description"] = None
    changed = shell.tenants.set(
        tenant,
        add_jobs=add_job or (),
        remove_jobs=remove_job or (),
        limits=typed_limits(limit or ()),
        expected_version=expected_version,
        **given,
    )
    _show(shell, changed)


@app.command()
def suspend(
    shell: Shell,
    tenant: OneTenant,
    reason: Reason = None,
    *,
    yes: Yes = False,
) -> None:
    """Accept no work of a tenant and start none, until it is resumed. Nothing is lost; running attempts continue."""
    shell.confirm(f"Stop all work of tenant {tenant}", yes=yes)
    _show(shell, shell.tenants.suspend(tenant, reason=reason))


@app.command()
def resume(shell: Shell, tenant: OneTenant) -> None:
    """End the suspension of a tenant: runs that waited start within five minutes."""
    _show(shell, shell.tenants.resume(tenant))


@app.command()
def grant(
    shell: Shell,
    tenant: TenantName,
    to: To,
    can: Can,
    jobs: GrantedJobs = None,
) -> None:
    """Let a principal do something for a tenant. From the first grant on, whoever has none may do nothing there."""
    _show(shell, shell.tenants.grant(tenant, to, can, **({"jobs": jobs} if jobs else {})))


@app.command()
def revoke(
    shell: Shell,
    tenant: TenantName,
    to: To,
    can: Annotated[list[str] | None, typer.Option(help="Only this role or verb. Repeatable. Default: all.")] = None,
    jobs: Annotated[
        list[str] | None, typer.Option(help="Only grants with exactly these jobs. Repeatable. Default: all.")
    ] = None,
) -> None:
    """Take grants of a principal away. It is named as it was when they were given, patterns included."""
    _show(shell, shell.tenants.revoke(tenant, to, can=can or None, jobs=jobs or None))


app.command()(erase)


def _show(shell: Shell, tenant: Tenant) -> None:
    shell.show(tenant, {} if tenant.jobs is None or tenant.jobs else {"jobs": "none"})


def _one_of(field: str, **given: object) -> None:
    """Raises InvalidInput if several options say the same thing differently."""
    found = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(found) > 1:
        raise InvalidInput(field, given[field], f"is given with {found[-1]}", f"give one of {', '.join(found)}")
