"""Checks that the jobs can be imported, that schedules name only known jobs, and that isolated jobs start from a preloaded process."""

from __future__ import annotations

from collections.abc import Iterator

from minutehand.doctor.context import DoctorContext
from minutehand.doctor.findings import Finding, fail, ok, warn
from minutehand.errors import MinutehandError
from minutehand.isolation import modules_of, report_of
from minutehand.jobs import default_registry, load


def jobs(context: DoctorContext) -> Iterator[Finding]:
    """One finding a package, and one for the jobs that the sampled schedules name."""
    check, loaded = "jobs", 0
    for package in context.packages:
        try:
            load(package, default_registry)
        except MinutehandError as problem:
            yield fail(
                check, str(problem), "run this where the package is installed, or in the directory that it lies in"
            )
        except Exception as problem:  # noqa: BLE001 (it is the user's code)
            what = f"{package}: {type(problem).__name__}: {problem}"
            yield fail(check, what, "fix the package: no worker can load it")
        else:
            loaded += 1
    if not loaded or loaded < len(context.packages):
        return
    unknown = sorted({head.job for head in context.active} - set(default_registry.names()))
    packages = ", ".join(context.packages)
    if unknown:
        remedy = "declare them, deploy the worker that knows them, or change the schedules: their runs end DEAD"
        yield warn(
            check, f"{packages}: active schedules name jobs that are not declared there: {', '.join(unknown)}", remedy
        )
    else:
        yield ok(check, f"{packages}: {len(default_registry.names())} jobs")


def isolated(context: DoctorContext) -> Iterator[Finding]:
    """What the import of isolated jobs leaves: one finding, or one for each module that a process of its own cannot import."""
    check, modules = "isolation", modules_of(default_registry) if context.packages else []
    if not modules:
        return
    try:
        report = report_of(modules)
    except OSError as problem:
        what = f"the process that imports isolated jobs ({', '.join(modules)}) fails: {problem}"
        yield fail(check, what, "find the module whose import ends or blocks its process, and fix it")
        return
    for module, text in report.failed.items():
        what = f"{module} cannot be imported by a process of its own: {text}"
        yield fail(check, what, "fix the module: every attempt of its isolated jobs fails")
    if report.module is not None:
        what = f"the import of {report.module} leaves {', '.join(report.left)}; so each isolated attempt imports its module again"
        remedy = (
            "start threads and open connections when a job first needs them, not on import; "
            "for threads of numerical libraries, set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1"
        )
        yield warn(check, what, remedy)
    elif not report.failed:
        yield ok(check, f"isolated jobs start from a process that has imported {', '.join(modules)}")
