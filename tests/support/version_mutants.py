"""Mutants of application versions: assignment, admission, lease, retirement. Each: name, file, this text, that text."""

VERSION_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a pinned run starts on any version",
        "worker/admission/refused.py",
        "    if row.app_version == own:\n        return None\n",
        "    if row.app_version:\n        return None\n",
    ),
    (
        "a lease does not demand the version",
        "state/lease.py",
        "    if bound_to is not None:\n",
        "    if bound_to is not None and False:\n",
    ),
    (
        "a run whose version has no worker is not counted",
        "worker/admission/refused.py",
        "now + _LATE, NO_WORKER)",
        "now + _LATE, OTHER)",
    ),
    (
        "the doctor does not look whether a worker of the version has come",
        "doctor/flow.py",
        "if now - seen.get(version, 0) > ALIVE)",
        "if version)",
    ),
    (
        "the attempt that succeeds counts as failed",
        "state/history/stats.py",
        "max(entry.attempt - ended_well, 0)",
        "entry.attempt",
    ),
    (
        "the history does not know the versions of runs",
        "state/history/entries.py",
        "        app_version=run.app_version,\n",
        "",
    ),
    (
        "statistics of two parts lose their versions",
        "state/history/stats.py",
        "        return self.jobs, self.schedules, self.versions\n",
        "        return self.jobs, self.schedules, {}\n",
    ),
    (
        "a run is offered again at once while workers of its version are busy",
        "worker/admission/refused.py",
        "_SOON, _LATE = 1 * SECOND, 60 * SECOND",
        "_SOON, _LATE = 0 * SECOND, 60 * SECOND",
    ),
    (
        "a message that was sent anew for another version comes back as well",
        "worker/delivery/receive.py",
        "        return replace(outcome, acknowledgement=Acknowledgement.DELETE)\n",
        "        return replace(outcome, acknowledgement=Acknowledgement.SHOW)\n",
    ),
    (
        "a replay as it was gets the latest version",
        "owner/runs/redrive.py",
        "app_version=original.app_version) if as_it_was",
        "app_version=original.app_version) if payload",
    ),
    (
        "a run that runs is reassigned",
        "state/before_start.py",
        "    waiting = all_of(READY, NOT_CANCELLED)\n",
        "    waiting = NOT_CANCELLED\n",
    ),
    (
        "a retired version gets new runs",
        "domain/tenants/app_versions.py",
        "            if version.moved_to is not None:\n                continue\n",
        "",
    ),
    (
        "runs of a retired version wait for it",
        "worker/admission/refused.py",
        ".resolved(row.app_version)\n",
        ".resolved(row.app_version) and row.app_version\n",
    ),
    (
        "two registrations overwrite each other",
        "stores/tenants/app_versions.py",
        "[record_write(record)]",
        "[record_write(record, follows=False)]",
    ),
    (
        "a replay is weighed by its own id",
        "owner/runs/redrive.py",
        ".assigned(str(original.ref))",
        ".assigned(str(ref))",
    ),
    (
        "a child is of the latest version",
        "domain/run.py",
        "        app_version=app_version,\n",
        "",
    ),
    (
        "a worker with a pinned job does not read the rows of fires",
        "worker/delivery/receive.py",
        "if every or says_more(",
        "if says_more(",
    ),
    (
        "a version of old is the latest again when a worker of it starts",
        "owner/app_versions.py",
        "        if present.find(name) is not None:\n            return present\n",
        "",
    ),
)
