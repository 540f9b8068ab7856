"""Items of ``submit_all`` as documents: JSON objects in a request or a file, each with the arguments of ``submit``.

A document that cannot be read is an item that is refused: it keeps its number, and the others are submitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from quarterjack.domain.names import integral
from quarterjack.domain.policies import Overrides, Retry
from quarterjack.domain.policies.flow import Flow
from quarterjack.errors import InvalidInput
from quarterjack.sdk.submissions.many import Submission, SubmittedBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quarterjack.sdk.scheduler import Scheduler

FIELDS = tuple(one.name for one in fields(Submission))
_RETRY = tuple(one.name for one in fields(Retry))
_FLOW = tuple(one.name for one in fields(Flow))


@dataclass(frozen=True, kw_only=True)
class UnreadSubmission(Submission):
    """An item whose document cannot be read."""

    job: str = ""
    problem: InvalidInput

    def overrides(self) -> Overrides:
        """Raises the problem."""
        raise self.problem


def submit_documents(
    scheduler: Scheduler, documents: Iterable[Any], *, idempotency_key: str | None = None, on_end: str | None = None
) -> SubmittedBatch:
    """``Scheduler.submit_all`` of documents. Raises what that raises, for what is wrong as a whole."""
    items = [_item(document) for document in documents]
    return scheduler.submit_all(items, idempotency_key=idempotency_key, on_end=on_end)


def _item(document: Any) -> Submission:
    try:
        return submission_of(document)
    except InvalidInput as problem:
        return UnreadSubmission(problem=problem)


def submission_of(document: Any) -> Submission:
    """The item of a document: an object with the fields of ``Submission``, ``run_at`` as text in ISO 8601. Raises InvalidInput."""
    if not isinstance(document, Mapping):
        raise InvalidInput(
            "item", document, "is no object", 'give e.g. {"job": "mails.send", "payload": {"to": "Ada"}}'
        )
    for name in document:
        if name not in FIELDS:
            raise InvalidInput(str(name), "…", "is not known here", f"use some of {', '.join(FIELDS)}")
    given = dict(document)
    if not isinstance(given.get("job"), str):
        raise InvalidInput("job", given.get("job"), "is not the name of a job", "give it, e.g. 'mails.send'")
    if given.get("run_at") is not None:
        given["run_at"] = _moment(given["run_at"])
    if given.get("retry") is not None:
        given["retry"] = retry_of(given["retry"])
    if given.get("flow") is not None:
        given["flow"] = flow_of(given["flow"])
    return Submission(**given)


def retry_of(words: Any) -> Retry:
    """A retry policy of an object with some of its fields. Raises InvalidInput, which names ``retry.<field>``."""
    given = _known("retry", words, _RETRY, '{"max_attempts": 3}')
    with _below("retry"):
        return Retry(**given)


def flow_of(words: Any) -> Flow:
    """A flow of an object with some of its fields. Raises InvalidInput, which names ``flow.<field>``."""
    given = _known("flow", words, _FLOW, '{"key": "customer", "at_a_time": 2}')
    with _below("flow"):
        return Flow(**given)


def _known(field: str, words: Any, names: Sequence[str], example: str) -> dict[str, Any]:
    if not isinstance(words, Mapping):
        raise InvalidInput(field, words, "is no object", f"give e.g. {example}")
    for word in words:
        if word not in names:
            raise InvalidInput(f"{field}.{word}", "…", "is not known here", f"use some of {', '.join(names)}")
    return {name: integral(value) for name, value in words.items()}


@contextmanager
def _below(name: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as problem:
        raise problem.about(f"{name}.{problem.field}") from None


def _moment(text: Any) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidInput("run_at", text, "is no time in ISO 8601", "write e.g. 2026-12-24T18:00:00Z") from None
