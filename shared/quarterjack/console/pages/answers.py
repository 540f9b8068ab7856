"""The answer to a run that waits for a signal: a form, made from the schema of the wait, and the receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from quarterjack.console.answer_fields import answer_of, fields_of
from quarterjack.console.calls import PageCall, get, post, run_of
from quarterjack.domain.run import RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import Conflict, InvalidInput
from quarterjack.sdk.views import Run
from quarterjack.state.waits.park import SIGNAL


def signal_asked(call: PageCall, run: Run) -> str | None:
    """The signal that a run waits for, and that the actor may send; None: there is none."""
    waits = run.state is RunState.PARKED and run.awaits is not None and run.awaits.startswith(SIGNAL)
    return str(run.awaits).removeprefix(SIGNAL) if waits and call.may(Verb.SIGNAL, run.job) else None


def ask(call: PageCall) -> Response:
    """The form for the answer."""
    return _form(call, call.scheduler.get_run(run_of(call)), {}, None)


def answer(call: PageCall) -> Response:
    """Send the answer, and show the receipt. Input that cannot be used is shown again with its fault."""
    run = call.scheduler.get_run(run_of(call))
    name = call.form.get("signal", "")
    try:
        receipt = call.acting().signal(run.id, name, answer_of(fields_of(run.answer_schema), call.form))
    except (InvalidInput, Conflict) as problem:
        return _form(call, run, call.form, problem)
    return call.render("runs/answered.html", run=run, receipt=receipt)


def _form(call: PageCall, run: Run, form: Mapping[str, str], fault: InvalidInput | Conflict | None) -> Response:
    call.require(Verb.SIGNAL, run.job)
    given: dict[str, Any] = {"reason": "", **form}
    return call.render(
        "runs/answer.html",
        run=run,
        signal=signal_asked(call, run),
        fields=fields_of(run.answer_schema),
        given=given,
        fault=fault if isinstance(fault, InvalidInput) else None,
        refused=str(fault) if isinstance(fault, Conflict) else None,
    )


ROUTES = (
    get("/run/{run}/answer", ask),
    post("/run/{run}/answer", answer),
)
