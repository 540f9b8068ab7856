"""CronJob manifests as schedules of a job that runs commands.

Every field of a manifest is either converted or reported with its line. Times have the meaning of Kubernetes' parser, also where it
differs from cron: a step does not make a day field a wildcard, and a time that a clock change skips is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from quarterjack.apply.nodes import YamlNode
from quarterjack.arguments import MAX_DESCRIPTION
from quarterjack.errors import InvalidInput
from quarterjack.importers import jobs_file
from quarterjack.importers.manifest import FieldRules, Manifest
from quarterjack.importers.report import Collector, Conversion, ImportReport, NotMapped
from quarterjack.importers.templates import put_in_later, read_rendered, refuse_template, why_not
from quarterjack.importers.text import names_a_secret, stem_of

_OVERLAP = {"Allow": None, "Forbid": "skip", "Replace": "terminate_other"}
_RETRIES = 6  # Kubernetes' default of backoffLimit
_MOST_ATTEMPTS = 1_000
_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_EVERY = re.compile(r"@every\s+(\S+)")
_DURATION = re.compile(r"(\d+)(h|m|s)")
_LONGEST = 256 * 1024  # characters of variables or arguments with their references replaced: no payload is larger
_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_DESCRIPTION = "kubernetes.io/description"
_DECIDING = (
    *(("metadata", name) for name in ("name", "namespace")),
    *(("spec", name) for name in ("schedule", "timeZone", "suspend", "concurrencyPolicy")),
)
_JOB = ("spec", "jobTemplate", "spec")
_POD = (*_JOB, "template", "spec")

# Fields without effect on time and work, and fields that Kubernetes writes itself.
_IDLE = re.compile(
    r"(apiVersion|kind|status"
    r"|metadata\.(name|namespace|uid|resourceVersion|generation|creationTimestamp|managedFields|selfLink)"
    r"|metadata\.annotations\.kubectl\.kubernetes\.io/last-applied-configuration"
    r"|spec\.jobTemplate\.metadata|spec\.jobTemplate\.spec\.template\.metadata"
    r"|.*\.spec\.(restartPolicy|dnsPolicy|schedulerName|terminationGracePeriodSeconds)"
    r"|.*\.containers\[0\]\.(name|imagePullPolicy|terminationMessagePath|terminationMessagePolicy)"
    r"|.*\.(completionMode|podReplacementPolicy|manualSelector))([.\[].*)?"
)
_REASONS = {
    "successfulJobsHistoryLimit": "runs are kept for the retention instead",
    "failedJobsHistoryLimit": "runs are kept for the retention instead",
    "ttlSecondsAfterFinished": "runs are kept for the retention instead",
    "resources": "size the worker, or give its queue memory and a concurrency",
    "envFrom": "give these variables to the worker",
    "volumes": "the worker must have these files",
    "volumeMounts": "the worker must have these files",
    "serviceAccountName": "give the worker the permissions",
    "serviceAccount": "give the worker the permissions",
    "imagePullSecrets": "nothing is pulled",
    "podFailurePolicy": "say it with retry_on and never_on of the job's Retry",
    "annotations": "use tags for what you want to filter by",
}
_POD_PATH = r"spec\.jobTemplate\.spec\.template\.spec"
_GROUP = re.compile(  # each word below one of these is a note of its own
    rf"(?:(?:{_POD_PATH}\.(?:initContainers|containers)\[\d+\]|{_POD_PATH}|spec\.jobTemplate\.spec\.template"
    r"|spec\.jobTemplate\.spec|spec\.jobTemplate|spec|metadata)\.)?(?P<word>[^.\[]+)"
)
_RULES = FieldRules(idle=_IDLE, reasons=_REASONS, group=_GROUP, idle_if={"completions": 1, "parallelism": 1})
_UNZONED = (
    "no time zone is known: times without timeZone are read in UTC, which is what most clusters do: --timezone ZONE"
)
_NO_COMMAND = "its container has no command, so what it runs is in its image: write that as command: [...]"
_NO_COMMAND_BUT_ARGS = (
    "its container has args and no command: its image's ENTRYPOINT gets them, if there is one."
    " Write that as command: [...], or the args if there is none"
)
_OUTPUT = "give the output of: kubectl get cronjobs -A -o yaml"
_REMARKS = (
    "a command runs in a worker process, not in a container: one machine, its user, its disk",
    "every run stays in the ledger for its retention, by default 90 days, whatever the history limits say",
    "commands run where a worker process runs; for Lambda see what the job's file says",
)


def read_kubernetes(text: str, source: str, *, timezone: str | None = None, job: str = "command") -> ImportReport:
    """Convert manifests: YAML or JSON, several documents, lists. Raises InvalidInput with line and remedy.

    ``timezone`` is the zone of manifests without timeZone (default UTC), ``job`` the name of the job that runs the commands.
    """
    refuse_template(text, source, reader="kubernetes")
    found, zoned = Collector(source), True
    for document in read_rendered(text, source):
        if document.value is None:  # what a template has left of itself
            continue
        if not isinstance(document.value, (dict, list)):
            found.left(document.line, str(document.value)[:60], f"it is a text and no manifest: {_OUTPUT}")
            continue
        for node in _items(document):
            if _word(node, "kind") == "CronJob":
                zoned = _cron_job(node, timezone, job, found) and zoned
            else:
                title = f"{_word(node, 'kind') or 'a document without kind'} {_name(node)}".strip()
                timed, why = why_not(node, _word(node, "kind"))
                if timed:
                    found.left(node.line, title, why)
                else:
                    found.setting(node.line, title, Conversion.LEFT, why)
    if not found.lines:
        raise InvalidInput(source, "", "has no manifest", _OUTPUT)
    remarks = _REMARKS if zoned or timezone is not None else (_UNZONED, *_REMARKS)
    owner = f"kubernetes/{stem_of(source, 'cronjobs')}"
    return found.report("manifests of Kubernetes", owner, remarks, lambda: jobs_file.for_commands(source, job))


def _items(node: YamlNode) -> list[YamlNode]:
    """The manifests of a document: itself, or the items of a list."""
    if isinstance(node.value, list):
        return [one for item in node.value for one in _items(item)]
    items = node.get("items")
    if str(_word(node, "kind")).endswith("List") and items is not None and isinstance(items.value, list):
        return [one for item in items.value for one in _items(item)]
    return [node]


def _word(node: YamlNode, *names: str) -> Any:
    below = node.get(*names)
    return None if below is None or isinstance(below.value, (dict, list)) else below.value


def _name(node: YamlNode) -> str:
    return "/".join(str(word) for key in ("namespace", "name") if (word := _word(node, "metadata", key)))


def _cron_job(node: YamlNode, timezone: str | None, job: str, found: Collector) -> bool:
    """Collect a CronJob. Returns False if its times are read in UTC because no zone is known."""
    manifest, notes = Manifest(node, _RULES), list[str]()
    name = _name(node) or f"cronjob-{node.line}"
    try:
        if later := put_in_later(node, *_DECIDING):
            raise NotMapped(later)
        zone, schedule = _zone_and_schedule(manifest)
        zone = zone or timezone
        words: dict[str, Any] = {
            "job": job,
            **_times(schedule, zone or "UTC"),
            **_policies(manifest, notes),
            "payload": _payload(manifest, notes),
            "tags": manifest.mapping("metadata", "labels"),
        }
        annotations = manifest.mapping("metadata", "annotations", only=_DESCRIPTION)
        words["description"] = annotations.get(_DESCRIPTION, "")[:MAX_DESCRIPTION]
        found.entry(node.line, f"CronJob {name}", name, words, [*notes, *manifest.rest()])
    except (NotMapped, InvalidInput) as problem:
        found.left(node.line, f"CronJob {name}", str(problem))
        return True
    return zone is not None


def _zone_and_schedule(manifest: Manifest) -> tuple[str | None, str]:
    """The zone, from timeZone or before the times, and the times. Raises NotMapped."""
    text = manifest.text("spec", "schedule")
    if not text:
        raise NotMapped("it has no spec.schedule")
    inline = _PREFIX.fullmatch(text.strip())
    zone, schedule = inline.groups() if inline else (None, text.strip())
    return manifest.text("spec", "timeZone") or zone, schedule


def _times(schedule: str, zone: str) -> dict[str, Any]:
    every = _EVERY.fullmatch(schedule)
    if every:
        return {"expression": _rate(every[1]), "timezone": zone}
    clocks = {} if zone in ("UTC", "Etc/UTC") else {"gap": "skip", "repeated": "both"}
    return {"expression": _as_cron(schedule), "timezone": zone, "rule": clocks}


def _rate(duration: str) -> str:
    parts = _DURATION.findall(duration)
    if "".join("".join(part) for part in parts) != duration:
        raise NotMapped(f"@every {duration} is not a length of time in whole seconds")
    return f"rate({sum(int(count) * {'h': 3600, 'm': 60, 's': 1}[unit] for count, unit in parts)} seconds)"


def _as_cron(schedule: str) -> str:
    """To Kubernetes ``*/2`` restricts a day field like any other: with two restricted ones, either is enough."""
    fields = schedule.split()
    if len(fields) == 5:
        day, weekday = fields[2], fields[4]
        if day not in ("*", "?", "*/1") and weekday not in ("*", "?", "*/1"):
            fields[2] = re.sub(r"(^|,)[*?](?=/)", r"\g<1>1-31", day)
            fields[4] = re.sub(r"(^|,)[*?](?=/)", r"\g<1>0-6", weekday)
    return " ".join(fields)


def _policies(manifest: Manifest, notes: list[str]) -> dict[str, Any]:
    policy = manifest.text("spec", "concurrencyPolicy") or "Allow"
    if policy not in _OVERLAP:
        raise NotMapped(f"concurrencyPolicy {policy!r} is not Allow, Forbid or Replace")
    if policy == "Forbid":
        notes.append("Forbid: a fire during a run is skipped for good; Kubernetes starts it after, within its deadline")
    deadline = manifest.number("spec", "startingDeadlineSeconds")
    if deadline is None:
        notes.append(
            "without startingDeadlineSeconds Kubernetes starts a missed run however late; here within 30 minutes"
        )
    limit = manifest.number(*_JOB, "activeDeadlineSeconds")
    attempts = manifest.number(*_JOB, "backoffLimit")
    attempts = _RETRIES if attempts is None else attempts
    if limit is not None and attempts:
        notes.append(
            "activeDeadlineSeconds: each attempt has it, and none starts later; there all attempts have it together"
        )
    if attempts >= _MOST_ATTEMPTS:
        notes.append(f"backoffLimit {attempts}: {_MOST_ATTEMPTS} attempts are the most")
    retry: dict[str, Any] = {"max_attempts": min(attempts + 1, _MOST_ATTEMPTS)}
    if attempts:
        retry |= {"base": 10, "cap": 360, "jitter": 0, "within": limit}
    return {
        "overlap": _OVERLAP[policy],
        "catch_up": "latest",
        "catch_up_window": deadline,
        "paused": manifest.flag("spec", "suspend") or None,
        "retry": {name: value for name, value in retry.items() if value is not None},
    }


def _payload(manifest: Manifest, notes: list[str]) -> dict[str, Any]:
    containers = manifest.all(*_POD, "containers")
    if len(containers) != 1 or manifest.all(*_POD, "initContainers"):
        raise NotMapped("its pod has several containers: make one command of them, or a pipeline of jobs, by hand")
    (container,) = containers
    if not manifest.texts(container, "command"):
        raise NotMapped(_NO_COMMAND_BUT_ARGS if manifest.all("args", of=container) else _NO_COMMAND)
    environment = _environment(manifest, container, notes)
    image = manifest.text("image", of=container)
    if image:
        notes.append(f"the worker must have what the image {image} has")
    words = manifest.texts(container, "command") + manifest.texts(container, "args")
    limits = (manifest.number(*_JOB, "activeDeadlineSeconds"), manifest.number(*_POD, "activeDeadlineSeconds"))
    argv, size = list[str](), 0
    for word in words:
        argv.append(_expanded(word, environment, taken=size))
        size += len(argv[-1])
    payload = {
        "argv": argv,
        "environment": environment,
        "directory": manifest.text("workingDir", of=container),
        "timeout": min((limit for limit in limits if limit is not None), default=None),
    }
    return {name: value for name, value in payload.items() if value}


def _environment(manifest: Manifest, container: YamlNode, notes: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    size = 0
    for variable in manifest.all("env", of=container):
        name = manifest.text("name", of=variable) or ""
        if variable.get("valueFrom") is not None:
            manifest.take(variable)
            notes.append(f"line {variable.line}: {name} comes from elsewhere in the cluster: give it to the worker")
        else:
            found[name] = _expanded(manifest.text("value", of=variable) or "", found, taken=size)
            if names_a_secret(name) and found[name]:
                notes.append(f"line {variable.line}: {name} is kept in the payload: let the job fetch secrets by name")
            size += len(found[name])
    return found


def _expanded(text: str, environment: Mapping[str, str], *, taken: int) -> str:
    """``$(NAME)`` as Kubernetes replaces it; ``$$(NAME)`` is ``$(NAME)``. ``taken`` is the size of the texts before it.

    Raises NotMapped for what becomes larger than a payload.
    """
    parts, size, end = list[str](), taken, 0
    for found in _REFERENCE.finditer(text):
        value = found[0][1:] if found[1] else environment.get(found[2], found[0])
        parts += [text[end : found.start()], value]
        size, end = size + found.start() - end + len(value), found.end()
        if size > _LONGEST:  # variables that repeat each other grow exponentially
            raise NotMapped(
                f"its variables or arguments have more than {_LONGEST:,} characters once $(NAME) is replaced"
            )
    return "".join([*parts, text[end:]])
