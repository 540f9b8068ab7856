"""Whether the jobs can be imported, and those are known that schedules name."""

from __future__ import annotations

from collections.abc import Iterator

from minutehand.doctor.findings import Finding, fail, ok, warn
from minutehand.doctor.patient import Patient
from minutehand.errors import MinutehandError
from minutehand.jobs import default_registry, load


def jobs(patient: Patient) -> Iterator[Finding]:
    """One finding a package, and one for the jobs that the sampled schedules name."""
    check, loaded = "jobs", 0
    for package in patient.packages:
        try:
            load(package, default_registry)
        except MinutehandError as problem:
            yield fail(
                check, str(problem), "run this where the package is installed, or in the directory that it lies in"
            )
        except Exception as problem:  # noqa: BLE001 (it is the user's code)
            what = f"{package}: {type(problem).__name__}: {problem}"
            yield fail(check, what, "mend the package: no worker can load it")
        else:
            loaded += 1
    if not loaded or loaded < len(patient.packages):
        return
    unknown = sorted({head.job for head in patient.active} - set(default_registry.names()))
    packages = ", ".join(patient.packages)
    if unknown:
        remedy = "declare them, deploy the worker that knows them, or change the schedules: their runs end DEAD"
        yield warn(
            check, f"{packages}: active schedules name jobs that are not declared there: {', '.join(unknown)}", remedy
        )
    else:
        yield ok(check, f"{packages}: {len(default_registry.names())} jobs")
