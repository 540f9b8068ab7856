"""``quarterjack tenants …``: profiles of tenants, their jobs and limits, and grants."""

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
        help=f"Name of the tenant, '~gold' for the tier gold, or '{INSTALLATION}' for the defaults and grants of all tenants.",
    ),
]
OneTenant = Annotated[str, typer.Argument(metavar="TENANT", help="Name of the tenant.")]
Jobs = Annotated[list[str] | None, typer.Option(help="Name or pattern of a job, e.g. 'report.*'. Repeatable.")]
TierOf = Annotated[str | None, typer.Option(help="Tier whose jobs, queue and limits apply where the profile has none.")]
QueueOf = Annotated[str | None, typer.Option(help="Default queue, for runs without a queue of their job or caller.")]
Description = Annotated[str | None, typer.Option(help="Description, e.g. the tenant's owner.")]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="A limit, e.g. runs_per_second=10. 'default' restores the installation's. Repeatable.",
    ),
]
To = Annotated[
    str,
    typer.Option(
        metavar="PRINCIPAL", help="Principal or pattern, as in the audit log: app:alice@acme, 'iam:arn:aws:…:role/*'."
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
    """List the profiles of tenants and tiers, and the installation's defaults."""
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
    minutes: Annotated[int, typer.Option(help="Length of the span in minutes, at most 60.")] = 5,
) -> None:
    """Show a tenant's rate, lateness, failures and backlog, and the rest of its limits."""
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
    """Create the profile of a tenant. Without --jobs it may run the installation's jobs, or all."""
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
    add_job: Annotated[list[str] | None, typer.Option(help="Add a job to the allow-list. Repeatable.")] = None,
    remove_job: Annotated[list[str] | None, typer.Option(help="Remove a job from the allow-list. Repeatable.")] = None,
    expected_version: Annotated[
        int | None, typer.Option(help="Refuse the change if the profile has another version.")
    ] = None,
    *,
    default_jobs: Annotated[
        bool, typer.Option("--default-jobs", help="Remove the allow-list: the installation's applies, or all jobs.")
    ] = False,
    no_jobs: Annotated[
        bool, typer.Option("--no-jobs", help="Empty the allow-list: the tenant may run no job.")
    ] = False,
    no_tier: Annotated[bool, typer.Option("--no-tier", help="Remove the tenant's tier.")] = False,
    default_queue: Annotated[
        bool, typer.Option("--default-queue", help="Remove the tenant's queue: the installation's applies.")
    ] = False,
    no_description: Annotated[bool, typer.Option("--no-description", help="Remove the description.")] = False,
) -> None:
    """Change a tenant's profile; options that are left out stay. A missing profile is created. It takes effect within 5 s."""
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
    """Accept and start no work of a tenant until it is resumed. Running attempts continue; waiting runs are kept."""
    shell.confirm(f"Stop all work of tenant {tenant}", yes=yes)
    _show(shell, shell.tenants.suspend(tenant, reason=reason))


@app.command()
def resume(shell: Shell, tenant: OneTenant) -> None:
    """End the suspension of a tenant. Waiting runs start within five minutes."""
    _show(shell, shell.tenants.resume(tenant))


@app.command()
def grant(
    shell: Shell,
    tenant: TenantName,
    to: To,
    can: Can,
    jobs: GrantedJobs = None,
) -> None:
    """Grant a principal roles or verbs for a tenant. After the first grant, principals without a grant may do nothing there."""
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
    """Revoke grants of a principal. Name it exactly as it was granted, patterns included."""
    _show(shell, shell.tenants.revoke(tenant, to, can=can or None, jobs=jobs or None))


app.command()(erase)


def _show(shell: Shell, tenant: Tenant) -> None:
    shell.show(tenant, {} if tenant.jobs is None or tenant.jobs else {"jobs": "none"})


def _one_of(field: str, **given: object) -> None:
    """Raises InvalidInput if several options say the same thing differently."""
    found = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(found) > 1:
        raise InvalidInput(field, given[field], f"is given with {found[-1]}", f"give one of {', '.join(found)}")
