"""``quarterjack tenants erase``: count, print the counts, then erase in repeated calls until nothing is left."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from quarterjack import ErasureProgress, Tenants
from quarterjack.cli.exits import NotConfirmed
from quarterjack.cli.shell import Shell, text_of
from quarterjack.cli.typed import utc_now
from quarterjack.errors import InvalidInput, Unavailable

_TRIES = 10  # calls in a row that may go unanswered
_PAUSE = 5.0  # seconds after one
_wait = threading.Event().wait


def erase(
    shell: Shell,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Name of the tenant.")],
    confirm: Annotated[str | None, typer.Option(metavar="TENANT", help="Confirmation: the same name again.")] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the data that would be removed, and write nothing.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Erase a tenant again, with what was stored after it was erased.")
    ] = False,
) -> None:
    """Remove all data of a tenant for good, and print the certificate. It takes at least 16 minutes, and may be stopped and repeated."""
    tenants = shell.tenants
    if not dry_run and confirm is not None and confirm != tenant:
        raise InvalidInput("--confirm", confirm, "is not the name of the tenant", f"give --confirm {tenant}")
    found = _count(shell, tenants, tenant)
    if dry_run:
        shell.answer({"tenant": tenant, "found": found}, _listed(f"would be removed of tenant {tenant}", found))
        return
    shell.remark(_listed(f"of tenant {tenant}", found))
    if confirm is None:
        raise NotConfirmed(f"erasing tenant {tenant} cannot be undone: nothing was removed; give --confirm {tenant}")
    ended = _erase(shell, tenants, tenant, again=again)
    shell.answer(ended.certificate, _certificate(ended.certificate or {}))


def _count(shell: Shell, tenants: Tenants, tenant: str) -> Mapping[str, int]:
    counted = tenants.count_erasure(tenant)
    while not counted.is_complete:
        shell.remark(f"counting: {sum(counted.found.values()):,} so far")
        counted = tenants.count_erasure(tenant, counted)
    return counted.found


def _erase(shell: Shell, tenants: Tenants, tenant: str, *, again: bool) -> ErasureProgress:
    """Call until it has ended. A call that is not answered is repeated."""
    failures, said = 0, ""
    while True:
        try:
            found = tenants.erase(tenant, confirm=tenant, again=again)
        except Unavailable as problem:
            failures += 1
            if failures >= _TRIES:
                raise
            shell.warn(f"{problem}; it goes on")
            _wait(_PAUSE)
            continue
        failures, again = 0, False
        if found.ended_at is not None:
            return found
        text = _standing(found)
        if text != said:
            shell.remark(text)
            said = text
        if found.resume_at is not None:
            _wait(_seconds_until(found.resume_at))


def _seconds_until(at: datetime) -> float:
    return max((at - utc_now()).total_seconds(), 0.0) + 0.1


def _standing(found: ErasureProgress) -> str:
    removed = f"{sum(found.removed.values()):,} removed"
    if found.resume_at is not None:
        running = f", {found.running} running attempts were asked to end" if found.running else ""
        return f"{removed}; waiting until {text_of(found.resume_at)}, when what is under way has ended{running}"
    return f"pass {found.number}: {found.place or 'done'}; {removed}"


def _listed(title: str, found: Mapping[str, int]) -> str:
    lines = [f"{count:>12,}  {kind}" for kind, count in sorted(found.items())]
    return "\n".join([f"{title}:", *(lines or ["           0  rows and objects"])])


def _certificate(document: Mapping[str, Any]) -> str:
    begun = f"tenant {document['tenant']} was erased, from {document['began_at']} to {document['ended_at']}"
    head = f"{begun}, in {document['passes']} passes (certificate {document['id']})"
    remains = [
        f"  {each['what']}"
        + (f" ({each['count']:,})" if "count" in each else "")
        + f": {each['where']}"
        + (f", until {each['until']}" if "until" in each else "")
        + f". {each['why']}"
        for each in document["remains"]
    ]
    return "\n".join([head, _listed("removed", document["removed"]), "remains:", *remains])
