"""The schema of a payload's type, for callers who know only the job's name: it accepts whatever the type accepts.

Pydantic's own schema of a type says what a payload should be like. As a check it would refuse payloads that the type accepts: ``"3"``
where a model converts texts, an object for a NamedTuple, a set with an item twice. What a schema cannot say is left to the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from quarterjack.payload_types.bounds import CHECKING, mapped

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_RENAMING = ("populate_by_name", "validate_by_name")  # configurations by which a field has several names
_CHANGING = (
    "str_strip_whitespace",
    "str_to_lower",
    "str_to_upper",
    "coerce_numbers_to_str",
)  # a text before it is checked


def fit_of(adapter: TypeAdapter[Any], shown: Mapping[str, Any] | None, *, strict: bool) -> Mapping[str, Any] | None:
    """The part of the published job that is for the check, beside the shown schema; None: no schema can check payloads of this type.

    ``closed``: a new payload may have no fields that the schema does not name. ``schema``, if the one that is shown is no check.
    """
    from pydantic.errors import PydanticInvalidForJsonSchema  # noqa: PLC0415 (comes with the type)

    from quarterjack.payload_types.mended import LaxFit, LooseTextFit, StrictFit  # noqa: PLC0415 (as above)

    facts = list(_facts(adapter.core_schema))
    if "several names" in facts:
        return None
    try:
        mended = LaxFit if not strict else LooseTextFit if "changes texts" in facts else StrictFit
        found = adapter.json_schema(schema_generator=mended)
    except PydanticInvalidForJsonSchema:
        return None
    check = stripped(found)
    said: dict[str, Any] = {"closed": strict}
    return said if shown is not None and check == stripped(shown) else said | {"schema": check}


def check_of(fit: Mapping[str, Any], shown: Mapping[str, Any] | None, *, new: bool) -> Mapping[str, Any] | None:
    """The schema to check by, from what is published; ``new``: of a payload that is not stored yet. None: there is none."""
    schema: Mapping[str, Any] | None = fit.get("schema", shown)
    if schema is None:
        return None
    check: Mapping[str, Any] = stripped(schema)
    return mapped(check, _close) if new and fit.get("closed") else check


def stripped(schema: Mapping[str, Any]) -> Any:
    """The schema without its notes. A format of a type is one: Pydantic reads more texts as dates than the standard names."""
    return mapped(schema, lambda part: {name: value for name, value in part.items() if name in CHECKING})


def _close(part: dict[str, Any]) -> dict[str, Any]:
    is_open = "properties" in part and part.get("additionalProperties", True) is True
    return part | {"additionalProperties": False} if is_open else part


def _facts(core: Any) -> Iterator[str]:
    """Features of a core schema that no JSON Schema can express."""
    if isinstance(core, dict):
        names = core.get("validation_alias")
        if isinstance(names, list) or any(core.get(name) is True for name in _RENAMING):
            yield "several names"
        if any(core.get(name) is True for name in _CHANGING):
            yield "changes texts"
        for inner in core.values():
            yield from _facts(inner)
    elif isinstance(core, (list, tuple)):
        for inner in core:
            yield from _facts(inner)
