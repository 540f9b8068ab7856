"""Pydantic's generator of schemas, widened: its schemas accept whatever the type accepts. Imports Pydantic: for ``derived`` only.

Where Pydantic takes more than a schema can say, the schema takes more still, and the worker decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic.json_schema import GenerateJsonSchema

_ANY_SCALAR = {"type": ["string", "number", "boolean"]}  # what a type that converts may take
_TEXT = {"type": "string"}


def _scalar(as_json: Mapping[str, Any]) -> Callable[..., dict[str, Any]]:
    return lambda self, schema: dict(as_json if self.strict else _ANY_SCALAR)


def _anything(self: Any, schema: Any) -> dict[str, Any]:  # noqa: ARG001 (Pydantic's signature)
    return {}


class StrictFit(GenerateJsonSchema):
    """Of a type that takes each value as JSON has it, and converts none."""

    strict: ClassVar[bool] = True
    loose_texts: ClassVar[bool] = False  # texts are changed before they are checked, by a configuration

    bytes_schema = date_schema = time_schema = datetime_schema = timedelta_schema = _scalar(_TEXT)
    uuid_schema = url_schema = multi_host_url_schema = _scalar(_TEXT)
    decimal_schema = complex_schema = _scalar(_ANY_SCALAR)
    bool_schema = _scalar({"type": "boolean"})

    def int_schema(self, schema: Any) -> Any:
        return super().int_schema(schema) if self.strict else dict(_ANY_SCALAR)

    def float_schema(self, schema: Any) -> Any:
        return _without(super().float_schema(schema), "multipleOf") if self.strict else dict(_ANY_SCALAR)

    def str_schema(self, schema: Any) -> Any:
        if self.loose_texts or not self.strict:
            return dict(_ANY_SCALAR)
        if any(schema.get(word) for word in ("strip_whitespace", "to_lower", "to_upper")):
            return dict(_TEXT)
        found = super().str_schema(schema)
        # \d is a digit of any script to Pydantic and one of ten to JSON Schema, and flags are not known there.
        is_alike = not any(mark in str(found.get("pattern", "")) for mark in ("\\", "(?"))
        return found if is_alike else _without(found, "pattern")

    def literal_schema(self, schema: Any) -> Any:
        return _as_python(super().literal_schema(schema))

    def enum_schema(self, schema: Any) -> Any:
        found = super().enum_schema(schema)
        return {} if schema.get("missing") else _as_python(found) if self.strict else dict(_ANY_SCALAR)

    def set_schema(self, schema: Any) -> Any:
        return _without(super().set_schema(schema), "uniqueItems", "maxItems")

    def frozenset_schema(self, schema: Any) -> Any:
        return _without(super().frozenset_schema(schema), "uniqueItems", "maxItems")

    def dict_schema(self, schema: Any) -> Any:
        return _without(super().dict_schema(schema), "propertyNames", "maxProperties")

    def tagged_union_schema(self, schema: Any) -> Any:
        found = super().tagged_union_schema(schema)
        return _without(found, "oneOf") | {"anyOf": found["oneOf"]} if "oneOf" in found else found

    def named_tuple_schema(self, schema: Any) -> Any:
        """It is taken as a list or as an object."""
        by_place = super().named_tuple_schema(schema)
        names = [each["name"] for each in schema["fields"]]
        required = [each["name"] for each in schema["fields"] if each["schema"]["type"] != "default"]
        fields = dict(zip(names, by_place.get("prefixItems", ()), strict=False))
        by_name = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
        return {"anyOf": [by_place, by_name]}

    def arguments_schema(self, schema: Any) -> Any:
        """The same, as older releases of Pydantic have it."""
        given = schema["arguments_schema"]
        by_place = self.p_arguments_schema(given, schema.get("var_args_schema"))
        return {"anyOf": [by_place, self.kw_arguments_schema(given, schema.get("var_kwargs_schema"))]}

    def lax_or_strict_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["strict_schema" if self.strict else "lax_schema"])

    # A validator of the user's may take anything.
    function_before_schema = function_wrap_schema = function_plain_schema = _anything


class LooseTextFit(StrictFit):
    loose_texts = True


class LaxFit(StrictFit):
    """Of a type that converts: ``"3"`` is an integer to it."""

    strict = False


def _without(schema: Any, *keywords: str) -> Any:
    return {name: value for name, value in schema.items() if name not in keywords}


def _as_python(schema: Any) -> Any:
    """To Python 1, 1.0 and True are equal, and so are they to the check of an enum or a Literal."""
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    equal = [other for other in (0, 1, False, True) if any(_is_number(value) and value == other for value in values)]
    return {
        "enum": [
            *values,
            *(other for other in equal if not any(type(other) is type(value) and other == value for value in values)),
        ]
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))
