"""Values of the references in tasks: of the pipeline's run, of its payload, of the results of tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from quarterjack.domain.payload import LARGEST_RESULT, MAX_DEPTH, is_too_deep
from quarterjack.domain.pipelines.expressions import FIRE, NoValue, Reference, filled, found_at, references_in
from quarterjack.domain.pipelines.graph import Task
from quarterjack.domain.run import RESULT_LOST, RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.errors import NotFound, Unavailable
from quarterjack.fires.pipelines.rows import PipelineRow
from quarterjack.ports.services import Services
from quarterjack.state.pipelines.decide import (
    NextTasks,
    ref_by_mark,
)
from quarterjack.stores.siblings import BESIDE
from quarterjack.timing import zone


class Values:
    """What the payloads and conditions of tasks refer to. Called with a reference, it gives its value."""

    def __init__(
        self, pipeline: PipelineRow, marks: Mapping[int, str], decision: NextTasks, services: Services
    ) -> None:
        self._pipeline, self._marks, self._decision, self._services = pipeline, marks, decision, services
        self._rows: Mapping[str, RunRow] = {}
        self._known: dict[tuple[str, str], Any] = {}

    def read(self, tasks: Iterable[Task]) -> None:
        """Read the rows that these tasks refer to, in one batch. Raises Unavailable."""
        names = {place.task for task in tasks for place in task.references if place.task is not None}
        numbers = {name: self._pipeline.graph.numbers[name] for name in names}
        run = self._pipeline.run.ref
        refs = {
            name: ref_by_mark(run, self._pipeline.name, name, self._marks.get(number, " "))
            for name, number in numbers.items()
        }
        looked = self._services.ledger.look([*refs.values()])
        if looked.unanswered:
            raise Unavailable(f"the tasks of run {run} could not be read; try again")
        self._rows = {name: looked.found[ref] for name, ref in refs.items() if ref in looked.found}

    def __call__(self, place: Reference) -> Any:
        key = place.root, place.field
        if key not in self._known:
            self._known[key] = self._value(place)
        return self._known[key]

    def _value(self, place: Reference) -> Any:
        if place.task is None:
            return self._of_fire(place.field) if place.root == FIRE else self._payload()
        row = self._rows.get(place.task)
        if place.field == "state":
            return str(row.state) if row is not None else str(RunState.SKIPPED)
        if row is None or row.state is not RunState.SUCCEEDED:
            return None
        return result_of(row, self._services)

    def _of_fire(self, field: str) -> str:
        run, definition = self._pipeline.run, self._pipeline.definition
        if field == "run_id":
            return str(run.ref)
        at = from_ms(run.due if run.scheduled_at is None else run.scheduled_at)
        local = at.astimezone(zone(run.timezone or definition.rule.timezone))
        return local.date().isoformat() if field == "date" else local.isoformat()

    def _payload(self) -> Any:
        run, definition, services = self._pipeline.run, self._pipeline.definition, self._services
        if run.payload_beside and run.payload is None:
            run = services.ledger.read(run.ref) or run
        text, key = run.payload, run.payload_ref
        if text is None and key is None and not run.ref.is_one_off:
            text, key = definition.payload, definition.payload_ref
        return json.loads((text if key is None else services.payloads.get(run.ref.tenant, key)) or "null")


def made_of(template: Any, values: Values) -> str:
    """The JSON of a payload, its references replaced. It is measured before it is built. Raises NoValue, Unavailable."""
    sizes, left = dict[str, int](), LARGEST_RESULT
    found = [place for _, place in references_in(template, "payload")]
    for place in found if len(found) > 1 else ():  # one has the size of a result at most
        if place.text not in sizes:
            sizes[place.text] = len(json.dumps(found_at(place, values)))
        left -= sizes[place.text]
        if left < 0:
            break
    text = "" if left < 0 else json.dumps(filled(template, values), separators=(",", ":"))
    if left < 0 or len(text) > LARGEST_RESULT:
        raise NoValue(f"its payload has more than {LARGEST_RESULT:,} bytes; store what is large and pass its address")
    if is_too_deep(text):
        raise NoValue(f"its payload has lists and dicts nested more than {MAX_DEPTH} levels deep")
    return text


def result_of(run: RunRow, services: Services) -> Any:
    """The result of a run that has succeeded, wherever it lies. Raises Unavailable; NoValue if it has left the bucket."""
    text, address = run.result, run.result_ref
    if address == RESULT_LOST:
        raise NoValue(f"the result of run {run.ref} was lost when the tables were restored")
    if address == BESIDE:
        text = services.siblings.read(run.ref).result
    elif address is not None:
        try:
            text = services.payloads.get(run.ref.tenant, address)
        except NotFound as problem:
            raise NoValue(f"the result of run {run.ref} is gone: {problem}") from None
    return None if text is None else json.loads(text)
