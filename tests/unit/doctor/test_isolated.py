"""What the doctor says of isolated jobs, whose modules a process of their own imports."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from quarterjack import Registry
from quarterjack.doctor import Finding, Severity, schedules
from quarterjack.doctor.context import AwsProbe, DoctorContext
from quarterjack.job_packages import load
from quarterjack.ready_jobs.http import Secret, http_job
from quarterjack.services import system_clock
from quarterjack.settings import Settings

JOB = """
import os, threading
from quarterjack import job
{body}

@job("{name}", isolation="process")
def isolated(ctx, payload): ...
"""


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], list[Finding]]:
    """The findings on an isolated job in a module of that name and text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry()
    monkeypatch.setattr(schedules, "default_registry", registry)
    monkeypatch.setattr("quarterjack.job", registry.job)

    def examine(name: str, body: str) -> list[Finding]:
        (tmp_path / f"{name}.py").write_text(JOB.format(name=name, body=body))
        load(name, registry)
        settings = Settings()
        probe = AwsProbe(settings=settings, clock=system_clock)
        context = DoctorContext(settings=settings, probe=probe, clock=system_clock, packages=(name,))
        return list(schedules.isolation(context))

    return examine


def test_a_module_that_leaves_nothing_is_fine(examined: Callable[[str, str], list[Finding]]) -> None:
    (found,) = examined("doctor_clean", "")
    assert found.verdict is Severity.OK
    assert "doctor_clean" in found.what


def test_a_module_that_leaves_a_thread_costs_every_attempt_its_import(
    examined: Callable[[str, str], list[Finding]],
) -> None:
    (found,) = examined(
        "doctor_thread", "threading.Thread(target=threading.Event().wait, name='poll', daemon=True).start()"
    )
    assert found.verdict is Severity.WARN
    assert "the import of doctor_thread leaves thread 'poll'" in found.what
    assert "when a job first needs them" in str(found.remedy)


@pytest.mark.parametrize(
    ("deed", "told"), [("1 / 0", "division by zero"), ("os._exit(3)", "the process that imports isolated jobs")]
)
def test_a_module_that_only_the_worker_can_import_is_wrong(
    examined: Callable[[str, str], list[Finding]], deed: str, told: str
) -> None:
    name = f"doctor_broken_{len(deed)}"
    (found,) = examined(name, f"if os.getpid() != {os.getpid()}: {deed}")
    assert found.verdict is Severity.FAIL
    assert told in found.what
    assert name in found.what


def test_without_isolated_jobs_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "default_registry", Registry())
    settings = Settings()
    context = DoctorContext(
        settings=settings,
        probe=AwsProbe(settings=settings, clock=system_clock),
        clock=system_clock,
        packages=("anything",),
    )
    assert list(schedules.isolation(context)) == []


def test_secrets_in_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, settings = Registry(), Settings()
    monkeypatch.setattr(schedules, "default_registry", registry)
    for name, secret in (("crm", Secret(env="CRM_TOKEN")), ("erp", Secret(parameter="/erp"))):
        http_job(name, url="https://example.com", headers={"X-Key": secret}, registry=registry)
    probe = AwsProbe(settings=settings, clock=system_clock)
    context = DoctorContext(settings=settings, probe=probe, clock=system_clock, packages=("anything",))
    (finding,) = schedules.secrets(context)
    assert finding.verdict is Severity.WARN
    assert "'crm'" in finding.what
    assert "CRM_TOKEN" in finding.what
    assert "parameter=" in str(finding.remedy)
