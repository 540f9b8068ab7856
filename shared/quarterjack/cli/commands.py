"""The table of commands. It names every command with its help, so that ``quarterjack --help`` imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quarterjack.values import replace


@dataclass(frozen=True)
class CommandEntry:
    """Where a command is implemented, and its line in the root's help."""

    help: str  # one line; of a command, the first line of its docstring
    home: str  # module below quarterjack.cli, with a function or a group of the command's name, or a group ``app``
    panel: str = ""  # heading in the root's help


# By the headings of the root's help.
_GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Schedules": {
        "schedules": CommandEntry("Create, change and show schedules.", "schedules.group"),
        "preview": CommandEntry("Show the next fires of an expression.", "schedules.preview"),
        "forecast": CommandEntry(
            "Show the number of coming fires of all schedules by minute, hour or day.", "schedules.preview"
        ),
        "apply": CommandEntry(
            "Create and update the schedules that a package or a file declares; show the differences first.",
            "schedules.apply",
        ),
        "export": CommandEntry(
            "Write all schedules as YAML that apply accepts unchanged, one document for each owner.", "schedules.apply"
        ),
        "schema": CommandEntry(
            "Print the JSON Schema of the files that apply reads, for completion and checks in editors.",
            "schedules.apply",
        ),
        "import": CommandEntry(
            "Convert schedules of other systems: a crontab, EventBridge, Kubernetes, Celery.", "schedules.imports"
        ),
        "pipelines": CommandEntry(
            "List, draw and run pipelines; show, retry and skip the tasks of a run.", "schedules.pipelines"
        ),
        "backfills": CommandEntry("Show, pause, resume and cancel backfills.", "schedules.backfills"),
    },
    "Runs": {
        "submit": CommandEntry("Run a job once: now, at a time, or after a delay.", "runs.group"),
        "runs": CommandEntry("Show, cancel, retry, replay and follow runs.", "runs.group"),
        "dead": CommandEntry("Show, repeat and purge runs that failed for good.", "runs.dead"),
        "resend": CommandEntry(
            "Send waiting runs to the work queues again, after a queue was purged, deleted or recreated.", "runs.dead"
        ),
        "why": CommandEntry(
            "Explain why a fire or a run ran, ran late, or did not run. Each sentence names its source.", "runs.why"
        ),
        "stats": CommandEntry("Show daily outcomes, start latency and duration.", "runs.history"),
        "history": CommandEntry("Rebuild the history of runs.", "runs.history"),
        "archive": CommandEntry("Read the archive of all transitions of runs.", "runs.history"),
    },
    "Installation": {
        "doctor": CommandEntry(
            "Check the installation from this machine: print each problem with its remedy. Writes nothing.",
            "installation.machinery",
        ),
        "jobs": CommandEntry("Show the jobs that workers know.", "installation.machinery"),
        "workers": CommandEntry("Show the worker processes and functions.", "installation.machinery"),
        "queues": CommandEntry("Show the queues.", "installation.machinery"),
        "versions": CommandEntry(
            "Show the application versions, and choose the one that new runs are assigned to.", "installation.versions"
        ),
        "restore": CommandEntry(
            "Reconcile tables that were restored to an earlier time, before the first tick.", "installation.restore"
        ),
        "tenants": CommandEntry("Show and change tenants: their jobs, limits and grants.", "installation.tenants"),
        "move": CommandEntry(
            "Move a tenant to another installation: dump everything to a file, load it there, end the schedules here.",
            "installation.moving",
        ),
        "secrets": CommandEntry(
            "List, set and delete the secrets of the tenant (--tenant), which its runs read.", "installation.tenant"
        ),
        "breakers": CommandEntry(
            "Show and close the circuit breakers of the tenant (--tenant), which hold back failing jobs.",
            "installation.tenant",
        ),
        "keys": CommandEntry(
            "Create, list and revoke API keys of the tenant (--tenant) for the HTTP API.",
            "installation.tenant",
        ),
        "freeze": CommandEntry(
            "Start no run of the tenant, or of a job, queue or key, until a time. Running attempts continue; due runs start afterwards.",
            "installation.tenant",
        ),
        "thaw": CommandEntry(
            "End the freeze now: runs of the tenant start within five minutes, those of a job, queue or key at a rate.",
            "installation.tenant",
        ),
        "frozen": CommandEntry(
            "Print whether the tenant, or a job, queue or key of it, is frozen, and until when.", "installation.tenant"
        ),
        "audit": CommandEntry(
            "List and verify audit entries. Without a subcommand: check the live data once and repair violations.",
            "installation.audit",
        ),
    },
    "Processes": {
        "local": CommandEntry(
            "Run everything on this machine: an embedded cloud, a ticker, workers, the API, the console, and example schedules.",
            "installation.local",
        ),
        "serve": CommandEntry(
            "Serve the HTTP API and the console on this machine alone, with your AWS credentials. Prints a key for this start.",
            "installation.local",
        ),
        "worker": CommandEntry("Run jobs: receive messages of a work queue by long polling.", "installation.processes"),
        "ticker": CommandEntry(
            "Run the ticker: send the runs that are due within the look-ahead to the work queue. Several may run at once.",
            "installation.processes",
        ),
        "undertaker": CommandEntry("Record dead runs: read the dead-letter queue.", "installation.processes"),
        "historian": CommandEntry(
            "Write the history: follow the stream of runs. One is enough; on AWS the Lambda function does it.",
            "installation.processes",
        ),
    },
}
COMMANDS: Mapping[str, CommandEntry] = {
    name: replace(entry, panel=panel) for panel, entries in _GROUPS.items() for name, entry in entries.items()
}
