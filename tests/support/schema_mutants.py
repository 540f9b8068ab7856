"""Mutants of the schemas that payloads have to fit. Each: name, file, this text, that text, tests."""

from __future__ import annotations

_BOUNDS = ("tests/unit/payload_types/test_bounds.py",)
_CHECK = ("tests/unit/payload_types/test_schema.py",)
_TYPES = ("tests/unit/payload_types/test_derived.py",)
_DOORS = ("tests/unit/sdk/test_payload_schemas.py",)
_PROCESS = ("tests/unit/isolation/test_isolated_jobs.py",)
SCHEMA_MUTANTS: tuple[tuple[str, str, str, str, tuple[str, ...]], ...] = (
    (
        "no worker checks the schema",
        "worker/execution/perform.py",
        '    text, kind = leased.payload or "null", leased.job.payload_type\n    check_fit(leased.job, text)\n',
        '    text, kind = leased.payload or "null", leased.job.payload_type\n',
        _DOORS,
    ),
    (
        "a payload that does not fit costs a process",
        "worker/execution/perform.py",
        "return tell(worker.isolated(worker, leased) if misfit is None else misfit)",
        "return tell(worker.isolated(worker, leased))",
        _PROCESS,
    ),
    (
        "an isolated payload that does not fit is tried again",
        "worker/execution/perform.py",
        "        return Failed(replace(failure_of(problem, leased.policies.retry), permanent=True))\n    return None",
        "        return None\n    return None",
        _PROCESS,
    ),
    (
        "stored payloads of a job with a schema are not read",
        "owner/job_terms.py",
        "return known.payload_type is not None or known.schema is not None",
        "return known.payload_type is not None",
        _DOORS,
    ),
    (
        "a new payload is checked by its type alone",
        "owner/job_terms.py",
        "        check_fit(known, text)\n        if known.payload_type is not None:\n            payload =",
        "        if known.payload_type is not None:\n            payload =",
        _DOORS,
    ),
    (
        "a schema that was read counts for good",
        "owner/catalogue.py",
        "        if fresh or job not in self._found.entries:\n",
        "        if job not in self._found.entries:\n",
        _DOORS,
    ),
    (
        "a schema that has changed is not compiled again",
        "owner/job_terms.py",
        "if before is not published and before != published:",
        "if before is None:",
        _DOORS,
    ),
    (
        "a caller without the job is shown what the job masks",
        "owner/job_terms.py",
        "schema.check(text, job, hides=published.masks)",
        "schema.check(text, job)",
        _DOORS,
    ),
    (
        "a stored payload may have no fields that its type has no more",
        "payload_types/derived.py",
        'if new and fit.get("closed")',
        'if fit.get("closed")',
        _DOORS,
    ),
    (
        "an update keeps a payload that does not fit",
        "sdk/schedules/changes.py",
        "            if pending is None and made != present:\n",
        "            if pending is None and new_job != present.job:\n",
        _DOORS,
    ),
    (
        "a reference may leave the schema",
        "payload_types/bounds.py",
        'not (reference == "#" or reference.startswith("#/"))',
        "False",
        _BOUNDS,
    ),
    (
        "references may unfold to anything",
        "payload_types/bounds.py",
        "                budget -= 1\n",
        "                budget -= 0\n",
        _BOUNDS,
    ),
    (
        "a schema may lead back to the same place",
        "payload_types/bounds.py",
        "    _check_circles(edges)\n",
        "",
        _BOUNDS,
    ),
    (
        "values of write-only fields are shown",
        "payload_types/schema.py",
        'return part.get("writeOnly") is True or any(',
        "return any(",
        _CHECK,
    ),
    (
        "a set has each item once",
        "payload_types/mended.py",
        '_without(super().set_schema(schema), "uniqueItems", "maxItems")',
        "super().set_schema(schema)",
        _TYPES,
    ),
    (
        "a NamedTuple is a list only",
        "payload_types/mended.py",
        'return {"anyOf": [by_place, by_name]}',
        "return by_place",
        _TYPES,
    ),
    (
        "the warning comes with each payload",
        "owner/job_terms.py",
        "            self._has_warned = True\n",
        "            self._has_warned = False\n",
        _DOORS,
    ),
)
