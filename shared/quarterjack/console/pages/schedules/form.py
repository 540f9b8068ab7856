"""The form that creates and changes a schedule. A preview shows the changes, the next fires, and the same change as a command and a file.

The form is sent for the preview and, by another button, to be carried out. With JavaScript the preview follows the typing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from quarterjack.apply.document import DeclarationFile, write
from quarterjack.apply.fields import read_words
from quarterjack.apply.plan import ApplyAction, PlannedChange
from quarterjack.console.calls import PageCall, Part, get, part, post, schedule_of
from quarterjack.console.forms import new_token
from quarterjack.console.pages.schedules.detail import DURATIONS, WordDifference, differences, in_words
from quarterjack.console.pages.schedules.fields import CHOICES, compact, fields_of, typed, words_of_form
from quarterjack.domain.schedule import Declaration
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, QuarterjackError
from quarterjack.sdk.schedule_views import Schedule, Upserted
from quarterjack.timing import PreviewRow, Rule, rows
from quarterjack.web.etags import etag_of, match
from quarterjack.web.fields import definition_arguments
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.views import schedule_document

_FIRES = 10
_REFUSED = (InvalidInput, AlreadyExists, Conflict)  # that are shown beside the form
# Flags of `quarterjack schedules` that are not made from the word.
_FLAGS = {
    "rule.start": "--from",
    "rule.end": "--until",
    "flow.key": "--flow-key",
    "flow.name": "--flow-name",
    "flow.order": "--flow-order",
    "flow.strict": "--flow-strict",
    "retry.base": "--retry-base",
    "retry.cap": "--retry-cap",
    "retry.within": "--retry-within",
    "alert_if_running_longer_than": "--alert-if-longer-than",
}


@dataclass(frozen=True)
class FormPreview:
    """The effect of a form."""

    rule: Rule
    in_words: str | None
    fires: Sequence[PreviewRow]
    change: Part  # a PlannedChange
    differences: Sequence[WordDifference]
    command: str
    file: str
    creates: bool

    @property
    def exists(self) -> bool:
        """Whether there is a schedule of the name that is to be created."""
        return self.creates and self.change.value is not None and self.change.value.revision is not None

    @property
    def refusal(self) -> str | None:
        """Why it would be refused."""
        change: PlannedChange | None = self.change.value
        return change.why if change is not None and change.act is ApplyAction.REFUSED else None

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings, such as a job that no worker knows."""
        return self.change.value.warnings if self.change.value is not None else ()

    @property
    def is_same(self) -> bool:
        """Whether nothing would change."""
        return self.change.value is not None and self.change.value.act is ApplyAction.UNCHANGED


def new(call: PageCall) -> Response:
    """The empty form. Its words may stand in the address: ``?job=reports.daily``."""
    call.require(Verb.CREATE, some=True)
    query = call.request.query_params
    given = {**typed(query), "timezone": query.get("timezone", "UTC"), "name": query.get("name", "")}
    return _page(call, given, None)


def create(call: PageCall) -> Response:
    """Preview the form, or create the schedule."""
    form = typed(call.form)
    if call.form.get("do") != "save":
        return _page(call, form, None, preview=_attempt(lambda: _preview(call, form["name"].strip(), form, None)))

    def act() -> Response:
        name, declared = form["name"].strip(), _declared(form["name"].strip(), form)
        call.acting().create_schedule(name, **definition_arguments(declared), client_token=_token(call))
        return call.go(call.of_schedule(name, done="create"))

    return _saved(call, form, None, act)


def edit(call: PageCall) -> Response:
    """The form with the definition of a schedule."""
    schedule = call.scheduler.get_schedule(schedule_of(call))
    call.require(Verb.UPDATE, schedule.job)
    words = {**schedule.definition, "payload": schedule.payload}
    form = {**fields_of(words), "revision": str(schedule.revision), "etag": etag_of(schedule_document(schedule))}
    return _page(call, form, schedule)


def change(call: PageCall) -> Response:
    """Preview the form, or change the schedule, if it is still the one that was shown."""
    name, form = schedule_of(call), typed(call.form)
    schedule = call.scheduler.get_schedule(name)
    if call.form.get("do") != "save" or schedule.managed_by is not None:
        preview = _attempt(lambda: _preview(call, name, form, schedule))
        return _page(call, form, schedule, preview=preview, status=200 if schedule.managed_by is None else 409)

    def act() -> Response:
        given = definition_arguments(_declared(name, form))
        if schedule.masked:
            given = {word: value for word, value in given.items() if word != "payload"}
        done = _if_unchanged(
            call,
            name,
            form["etag"],
            lambda seen: call.acting().upsert_schedule(
                name, **given, keep_payload=schedule.masked, expected_revision=seen, client_token=_token(call)
            ),
        )
        return call.go(call.of_schedule(name, done="same" if done.change == "unchanged" else "edit"))

    return _saved(call, form, schedule, act)


def _if_unchanged(call: PageCall, name: str, etag: str, act: Callable[[int | Schedule | None], Upserted]) -> Upserted:
    try:
        return match(etag or "none", lambda: call.scheduler.get_schedule(name), act)
    except RefusedRequest:
        raise Conflict(
            f"name={name!r}: somebody changed it after this form was shown; open the form again to see how"
        ) from None


def _token(call: PageCall) -> str:
    return call.form.get("token") or new_token()


def _declared(name: str, form: Mapping[str, str]) -> Declaration:
    return read_words(name, words_of_form(form), "the form")


def _preview(call: PageCall, name: str, form: Mapping[str, str], schedule: Schedule | None) -> FormPreview:
    words = words_of_form(form)
    declared = read_words(name, words, "the form")
    keeps = schedule is not None and schedule.masked
    found = part(lambda: call.scheduler.compare_schedule(declared, keep_payload=keeps))
    return FormPreview(
        rule=declared.rule,
        in_words=in_words(declared.rule, name),
        fires=_fires(call, name, declared.rule, schedule, call.now),
        change=found,
        differences=differences(found.value.fields if found.value is not None and schedule is not None else {}),
        command=command_of(name, words, act="create" if schedule is None else "upsert"),
        file=file_of(name, words),
        creates=schedule is None,
    )


def _fires(call: PageCall, name: str, rule: Rule, schedule: Schedule | None, now: datetime) -> Sequence[PreviewRow]:
    """The next fires. A rule that stays keeps its anchor."""
    found = None if schedule is None else call.scheduler.describe_schedule(name).definition
    anchor = found.counts_from if found is not None and found.rule == rule else None
    return rows(rule, after=now, count=_FIRES, key=f"{call.tenant}/{name}", anchor=anchor)


def _attempt(ask: Any) -> FormPreview | QuarterjackError:
    try:
        found: FormPreview = ask()
    except _REFUSED as problem:
        return problem
    return found


def _saved(call: PageCall, form: Mapping[str, str], schedule: Schedule | None, act: Any) -> Response:
    """The answer to a change; if it is refused, the form as it was typed, with the fault."""
    try:
        done: Response = act()
    except _REFUSED as problem:
        return _page(call, form, schedule, preview=problem, status=422 if isinstance(problem, InvalidInput) else 409)
    return done


def _page(
    call: PageCall,
    form: Mapping[str, str],
    schedule: Schedule | None,
    *,
    preview: FormPreview | QuarterjackError | None = None,
    status: int = 200,
) -> Response:
    fault = preview if isinstance(preview, QuarterjackError) else None
    if fault is not None and status == 200:
        status = 422
    return call.render(
        "schedules/edit.html",
        status,
        schedule=schedule,
        file=None if schedule is None or schedule.managed_by is None else _file_of(schedule),
        form=form,
        reason=call.form.get("reason", ""),
        choices=CHOICES,
        jobs=part(lambda: [one.name for one in call.scheduler.jobs()]),
        preview=None if fault is not None else preview,
        fault=fault,
        token=call.form.get("token") or new_token(),
    )


def _file_of(schedule: Schedule) -> str:
    payload = {} if schedule.masked or schedule.payload is None else {"payload": schedule.payload}
    return file_of(schedule.name, {**schedule.definition, **payload}, schedule.managed_by)


def command_of(name: str, words: Mapping[str, Any], *, act: str) -> str:
    """The command that makes a schedule have these words; ``act`` is "create" or "upsert"."""
    expression = words["expression"]
    first, *also = [expression] if isinstance(expression, str) else expression
    parts = ["quarterjack", "schedules", act, name, str(words["job"]), first]
    for text in also:
        parts += ["--also", text]
    for word, value in words.items():
        parts += _options(word, value)
    return shlex.join(parts)


def file_of(name: str, words: Mapping[str, Any], managed_by: str | None = None) -> str:
    """The file that `quarterjack apply` takes."""
    return write([DeclarationFile(declarations=(), managed_by=managed_by, words={name: words})])


def _options(word: str, value: Any) -> Iterator[str]:
    if word in ("job", "expression") or (word == "timezone" and value == "UTC"):
        return
    if word == "payload":
        yield from ("--payload", compact(value))
    elif word == "tags":
        for key, text in value.items():
            yield from ("--tag", f"{key}={text}")
    elif word in ("rule", "retry", "flow"):
        for below, inner in value.items():
            yield from _options(f"{word}.{below}", inner)
    elif isinstance(value, bool):
        yield f"--{'' if value else 'no-'}{_flag(word).removeprefix('--')}"
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from (_flag(word), str(one))
    else:
        is_span = word.rpartition(".")[2] in DURATIONS and not isinstance(value, str)
        yield from (_flag(word), _seconds(value) if is_span else str(value))


def _flag(word: str) -> str:
    return _FLAGS.get(word) or "--" + word.rpartition(".")[2].replace("_", "-")


def _seconds(value: float) -> str:
    return repr(value).removesuffix(".0") + "s"


ROUTES = (
    get("/schedules/new", new),
    post("/schedules/new", create),
    get("/schedule/{name}/edit", edit),
    post("/schedule/{name}/edit", change),
)
