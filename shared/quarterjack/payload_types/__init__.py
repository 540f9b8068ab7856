"""Typed payloads: the annotation of a job's payload parameter, by which a payload is checked and converted.

A dataclass, a TypedDict, a NamedTuple, a Pydantic model and whatever is made of them is *typed*; so are dates, enums, ``Literal`` and the
like. JSON's own types (dict, list, str, int … and what is made of these alone), ``Any`` and ``object`` are not: such a payload is passed
as it is. Pydantic checks and converts. It is imported with the first payload that is checked, and never for a payload that is not typed.

Beside its type a job may have a JSON Schema, written by hand (``schema``, ``bounds``): ``jsonschema-rs`` checks it, and ``faults`` finds
what of a payload does not fit. A caller that knows no more of a job than its name checks by the schema that workers publish.
"""

from __future__ import annotations

from quarterjack.payload_types.hints import signature_of
from quarterjack.payload_types.kind import PayloadType, jsonable, payload_fit, payload_schema, payload_type_of
from quarterjack.payload_types.schema import PayloadSchema, schema_of

__all__ = [
    "PayloadSchema",
    "PayloadType",
    "jsonable",
    "payload_fit",
    "payload_schema",
    "payload_type_of",
    "schema_of",
    "signature_of",
]
