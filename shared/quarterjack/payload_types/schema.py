"""A JSON Schema (2020-12) that payloads have to fit: written by hand at ``@job(schema=...)``, or as workers publish it.

``jsonschema-rs`` checks: compiled code, patterns in linear time, no network. It is imported with the first schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from quarterjack.domain.redaction import USUAL, Redact
from quarterjack.errors import InvalidInput, JobError
from quarterjack.extras import install_remedy
from quarterjack.payload_types.bounds import Parts, checked_schema, parts_of, target_of
from quarterjack.payload_types.faults import FaultFinder
from quarterjack.payload_types.refusals import misfit
from quarterjack.values import replace

if TYPE_CHECKING:
    from jsonschema_rs import Validator

REMEDY = f"{install_remedy('typed')}; on Lambda put jsonschema-rs into the jobs' requirements.txt"
_PATTERN_BYTES = 200_000  # of a compiled pattern: the time of a search is proportional to it and to the text
_MOST_SECRETS = 50  # names of ``writeOnly`` fields that are masked


@cache
def is_engine_installed() -> bool:
    return find_spec("jsonschema_rs") is not None


class PayloadSchema:
    """A schema that has been checked, and the check of payloads by it. From any thread."""

    def __init__(self, schema: object, *, formats: bool = True) -> None:
        """``formats``: whether ``format`` is checked; a schema that was made from a type has it as a note.

        Raises InvalidInput, with the place in the schema, for one that is invalid or not supported. Needs the engine.
        """
        self._schema = checked_schema(schema)
        self._formats = formats
        self._validator = _compiled(json.dumps(self._schema), formats=formats)

    @property
    def schema(self) -> Mapping[str, Any]:
        return self._schema

    def fits(self, value: Any) -> bool:
        """Whether a payload, as JSON values, fits."""
        return self._validator.is_valid(value)

    def check(self, text: str, job: str, *, redact: Redact = USUAL, hides: bool = False) -> None:
        """Raise InvalidInput for a payload (JSON text) that does not fit: with place, value (a secret masked) and remedy.

        ``hides``: no value is shown.
        """
        value = json.loads(text)
        if _is_valid(self._validator, value):
            return
        raise misfit(
            self._finder.first(_whole(value) if "\\ud" in text else value), text, job, self.masking(redact), hides=hides
        )

    def masking(self, redact: Redact) -> Redact:
        """What errors must not repeat, with the fields that the schema has as ``writeOnly``."""
        more = tuple(name for name in self._secrets if name not in redact.fields)
        return replace(redact, fields=(*redact.fields, *more)) if more else redact

    @cached_property
    def _secrets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_write_only(self.schema)))[:_MOST_SECRETS]

    @cached_property
    def _finder(self) -> FaultFinder:
        """Made with the first refusal."""
        import jsonschema_rs as engine  # noqa: PLC0415 (as above)

        parts = engine.validator_map_for(self._schema, **_options(formats=self._formats))
        return FaultFinder(self.schema, parts.__getitem__, partial(_engine, formats=self._formats))


def schema_of(job: str, given: object) -> PayloadSchema:
    """The schema of a job's declaration. Raises JobError for one that cannot be used, or without ``jsonschema-rs``."""
    if not is_engine_installed():
        raise JobError(f"job={job!r}: its schema needs jsonschema-rs, which is not installed; {REMEDY}")
    try:
        return PayloadSchema(given)
    except InvalidInput as problem:
        raise JobError(f"job={job!r}: {problem}") from None


def answer_schema(given: object) -> PayloadSchema:
    """The schema that the answer to a wait has to fit. Raises InvalidInput for one that cannot be used, or without ``jsonschema-rs``."""
    if not is_engine_installed():
        raise InvalidInput("schema", given, "cannot be checked: jsonschema-rs is not installed here", REMEDY)
    return PayloadSchema(given)


def _write_only(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of the fields whose values are secrets: they are ``writeOnly``, or one of their alternatives is."""
    parts = parts_of(schema)
    for part in parts.values():
        properties = part.get("properties") if isinstance(part, dict) else None
        for name, each in properties.items() if isinstance(properties, dict) else ():
            if name and _is_write_only(each, parts):
                yield name


def _is_write_only(part: Any, parts: Parts) -> bool:
    if not isinstance(part, dict):
        return False
    here = [each for keyword in ("anyOf", "oneOf", "allOf") for each in part.get(keyword, ())]
    if "$ref" in part:
        here.append(parts[target_of(part["$ref"])])
    return part.get("writeOnly") is True or any(_is_write_only(each, parts) for each in here)


def _is_valid(validator: Validator, value: Any) -> bool:
    try:
        return validator.is_valid(value)
    except UnicodeEncodeError:
        return validator.is_valid(_whole(value))


def _whole(value: Any) -> Any:
    """The value with a question mark for each half of a surrogate pair, which the engine does not take. No schema names one."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return {_whole(name): _whole(each) for name, each in value.items()} if isinstance(value, dict) else value


@lru_cache(maxsize=512)
def _compiled(text: str, *, formats: bool) -> Validator:
    """The schema, ready to check. Equal ones are compiled once: a process may have several registries. Raises InvalidInput."""
    import jsonschema_rs as engine  # noqa: PLC0415 (15 MB, and only jobs with a schema need it)

    schema = json.loads(text)
    try:
        return _engine(schema, formats=formats)
    except (ValueError, engine.ReferencingError) as problem:  # its ValidationError is a ValueError
        raise _of_schema(problem) from None


def _engine(schema: Any, *, formats: bool) -> Validator:
    import jsonschema_rs as engine  # noqa: PLC0415 (as above)

    return engine.Draft202012Validator(schema, **_options(formats=formats))


def _options(*, formats: bool) -> dict[str, Any]:
    import jsonschema_rs as engine  # noqa: PLC0415 (as above)

    patterns = engine.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    return {"validate_formats": formats, "offline": True, "pattern_options": patterns}


def _of_schema(problem: Any) -> InvalidInput:
    """The engine's error about a schema, in our words."""
    path = [str(part) for part in getattr(problem, "instance_path", ())]
    field = "/".join(("schema#", *path))
    value = getattr(problem, "instance", None)
    if "pattern" in path[-1:] or "patternProperties" in path[-2:]:
        remedy = (
            "correct it; it has to do without look-around, back-references and large counts: patterns take linear time"
        )
        return InvalidInput(field, value, "is a pattern that cannot be used", remedy)
    words = str(getattr(problem, "message", problem)).partition("\n")[0]
    return InvalidInput(field, value, f"is not JSON Schema 2020-12 ({words[:200]})", "correct it")
