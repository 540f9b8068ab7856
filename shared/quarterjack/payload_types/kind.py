"""The type of a job's payload: check, conversion, serialisation, schema."""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from quarterjack.domain.redaction import USUAL, Redact
from quarterjack.errors import InvalidInput, JobError
from quarterjack.extras import install_remedy
from quarterjack.payload_types import hints
from quarterjack.payload_types.derived import fit_of
from quarterjack.payload_types.hints import Unresolved
from quarterjack.payload_types.refusals import refusal

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

    from quarterjack.domain.job import Job

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class PayloadType:
    """The annotation of a job's payload parameter. It is read at the declaration, if its names are known by then, else at first use."""

    def __init__(self, annotation: Any, function: Callable[..., Any], job: str, names: Mapping[str, Any]) -> None:
        self._annotation, self._function, self._job, self._names = annotation, function, job, names
        self._text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    @property
    def is_known(self) -> bool:
        """Whether all names in the annotation are known by now."""
        try:
            self._resolved  # noqa: B018 (kept from then on)
            return True
        except JobError:
            return False

    @cached_property
    def _resolved(self) -> Any:
        try:
            return hints.resolved(self._annotation, self._function, self._names)
        except Unresolved as problem:
            remedy = "import it outside of `if TYPE_CHECKING:`, or annotate the payload with dict"
            raise self._error(f"is not known at run time ({problem})", remedy) from None

    def _error(self, problem: str, remedy: str) -> JobError:
        return JobError(f"job={self._job!r}: its payload's annotation {self._text} {problem}; {remedy}")

    def check_annotation(self) -> None:
        """Raise JobError for an annotation with unknown names, or one that needs Pydantic where that is not installed."""
        _ = self.is_plain

    @property
    def is_plain(self) -> bool:
        """Whether nothing is checked or converted. Raises JobError for an annotation with unknown names, or without Pydantic."""
        if hints.is_plain(self._resolved):
            return True
        if find_spec("pydantic") is None:
            remedy = (
                f"{install_remedy('typed')}; on Lambda put pydantic into the jobs' requirements.txt; "
                "or annotate the payload with dict"
            )
            raise self._error("needs Pydantic, which is not installed", remedy)
        return False

    @cached_property
    def adapter(self) -> TypeAdapter[Any] | None:
        """What checks and converts; None for a plain payload. Raises JobError for a type that Pydantic does not know."""
        if self.is_plain:
            return None
        from pydantic import TypeAdapter  # noqa: PLC0415 (with the first payload, not with the declaration)
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 (as above)

        try:
            made: TypeAdapter[Any] = TypeAdapter(hints.portable(self._resolved, self._names))
            made.rebuild(_types_namespace=dict(self._names))  # if a class in it names others of the function around
        except (PydanticUserError, NameError, TypeError) as problem:
            words = str(problem).partition("\n")[0]
            remedy = "use dataclasses, TypedDicts or Pydantic models, or annotate the payload with dict"
            if getattr(problem, "code", None) == "typed-dict-version":
                remedy = "do that, or annotate the payload with dict"
            raise self._error(f"cannot be checked ({words})", remedy) from None
        self._names = {}
        return made

    def prepare(self) -> None:
        """Import and make now what the first payload would need. Raises JobError for an annotation that cannot be used."""
        _ = self.adapter

    @cached_property
    def _rules(self) -> dict[str, Any]:
        """Strict, but for classes that say themselves how strict they are."""
        return {} if hints.has_own_rules(self._resolved) else {"strict": True}

    def converted(self, text: str, *, redact: Redact = USUAL, new: bool = False) -> Any:
        """The payload (JSON text) as the job gets it. With ``new``, fields that the type does not have are refused, not passed over.

        Raises InvalidInput, which names the field and shows no value that ``redact`` masks; JobError for an annotation that cannot be used.
        """
        adapter = self.adapter
        if adapter is None:
            return json.loads(text)
        from pydantic import ValidationError  # noqa: PLC0415 (as above)

        if self._rules:
            # A stored payload, too, is first read as a new one was checked: which member of a union it is may depend on its fields.
            try:
                return adapter.validate_json(text, **self._rules, extra="forbid")
            except ValidationError as problem:
                if new:
                    raise self._refused(problem, text, redact) from None
        try:
            return adapter.validate_json(text, **self._rules)
        except ValidationError as problem:
            raise self._refused(problem, text, redact) from None

    def _refused(self, problem: ValidationError, text: str, redact: Redact) -> InvalidInput:
        return refusal(problem.errors(include_url=False, include_context=False), text, self._job, redact)

    def schema(self) -> Mapping[str, Any] | None:
        """Its JSON Schema (2020-12); None for a plain payload, or a type that has none."""
        adapter = self.adapter
        if adapter is None:
            return None
        from pydantic.errors import PydanticInvalidForJsonSchema  # noqa: PLC0415 (as above)

        try:
            return {"$schema": _DIALECT, **adapter.json_schema()}
        except PydanticInvalidForJsonSchema:
            return None

    def fit(self) -> Mapping[str, Any] | None:
        """What is published so that callers who know the job's name only can check payloads: ``derived.fit_of``. None: they cannot."""
        return None if self.adapter is None else fit_of(self.adapter, self.schema(), strict=bool(self._rules))

    def jsonable(self, value: Any) -> Any:
        """See ``jsonable``; of a typed payload also dates, sets and whatever else Pydantic writes as JSON. Raises TypeError, ValueError."""
        if self.adapter is None:
            return jsonable(value)
        from pydantic_core import to_jsonable_python  # noqa: PLC0415 (as above)

        if is_dataclass(value) and not isinstance(value, type):
            return _dumped(value)
        return to_jsonable_python(value, by_alias=True)


def jsonable(value: Any) -> Any:
    """A dataclass's instance or a Pydantic model within a payload, as a dict. Raises TypeError for any other object.

    Without Pydantic, a dataclass may hold values of JSON only.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value) if find_spec("pydantic") is None else _dumped(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _dumped(value: Any) -> Any:
    """A dataclass's instance with the aliases and serialisers of its fields. What its fields should not hold is for the check to say."""
    kind: Any = type(value)
    return _dumper(kind).dump_python(value, mode="json", by_alias=True, warnings=False)


@lru_cache(maxsize=256)
def _dumper(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 (as above)

    return TypeAdapter(kind)


# By function and name of the job, so that a fork has the adapters of its parent; a function may be two jobs.
_known: WeakKeyDictionary[Callable[..., Any], dict[str, PayloadType]] = WeakKeyDictionary()


def payload_type_of(
    function: Callable[..., Any], job: str, names: Mapping[str, Any] | None = None
) -> PayloadType | None:
    """The type of the payload that a job's function takes; None if it is plain.

    ``names`` are those of the function in which it is declared. Raises JobError if it is typed and Pydantic is not installed.
    """
    annotation = hints.annotation_of(function)
    if annotation is inspect.Parameter.empty or hints.is_plain_text(annotation):
        return None
    of_function: dict[str, PayloadType] = {}
    with contextlib.suppress(TypeError):  # an object that cannot be hashed or referred to weakly
        of_function = _known.setdefault(function, of_function)
    if job not in of_function:
        of_function[job] = PayloadType(annotation, function, job, names or {})
    found = of_function[job]
    return None if found.is_known and found.is_plain else found


def payload_schema(job: Job) -> Mapping[str, Any] | None:
    """The JSON Schema (2020-12) of a job's payload; None if it is not typed. Raises JobError for an annotation that cannot be used.

    >>> from dataclasses import dataclass
    >>> from quarterjack import Registry
    >>> @dataclass
    ... class Letter:
    ...     to: str
    ...     copies: int = 1
    >>> jobs = Registry()
    >>> @jobs.job("letters.print")
    ... def print_letter(ctx, payload: Letter):
    ...     return payload.to
    >>> [payload_schema(job)["required"] for job in jobs]
    [['to']]
    """
    return None if job.payload_type is None else job.payload_type.schema()


def payload_fit(job: Job) -> Mapping[str, Any] | None:
    """What workers publish beside the schema of a job's typed payload, for the check by it; see ``PayloadType.fit``."""
    return None if job.payload_type is None else job.payload_type.fit()
