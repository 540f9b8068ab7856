"""What one types at the ``aws`` command line, checked against the service models that botocore has: operation, options, choices."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import botocore.session
from botocore import xform_name

_OWN = {"logs tail": {"--since", "--filter-pattern", "--follow", "--format"}}  # of the command line, not of the service
_GLOBAL = {"--query", "--output", "--region", "--profile"}


def check_aws(words: Sequence[str]) -> None:
    """Fails for words that the command line would refuse."""
    service, operation, *given = words
    options = [word for word in given if word.startswith("--")]
    if f"{service} {operation}" in _OWN:
        unknown = set(options) - _OWN[f"{service} {operation}"] - _GLOBAL
        assert not unknown, f"aws {service} {operation} has no {unknown}"
        return
    model = _model(service)
    if operation == "wait":  # for what the service's waiter asks again and again
        waiter, *given = given
        operation = xform_name(_waited_for(service, waiter), "-")
    named = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in named, f"aws {service} has no {operation}"
    shape = model.operation_model(named[operation]).input_shape
    members = {xform_name(name, "-"): found for name, found in (shape.members if shape else {}).items()}
    for option in options:
        name = option.removeprefix("--")
        switch = name.removeprefix("no-")
        is_switch = switch in members and members[switch].type_name == "boolean"
        assert name in members or is_switch or option in _GLOBAL, f"aws {service} {operation} has no {option}"
    required = {xform_name(name, "-") for name in (shape.required_members if shape else ())}
    missing = required - {option.removeprefix("--") for option in options}
    assert not missing, f"aws {service} {operation} wants --{', --'.join(sorted(missing))}"
    _check_structures(service, operation, members, given)


def _check_structures(service: str, operation: str, members: dict[str, Any], given: Sequence[str]) -> None:
    """The keys of values in shorthand, `Key=value,Key=value`."""
    for option, value in itertools.pairwise(given):
        shape = members.get(option.removeprefix("--"))
        if not option.startswith("--") or shape is None:
            continue
        inner = shape.member if shape.type_name == "list" else shape
        if inner.type_name == "structure":
            keys = re.findall(r"(?:^|,)(\w+)=", value)
            assert keys, f"aws {service} {operation} {option}: {value} has no keys"
            assert set(keys) <= inner.members.keys(), f"aws {service} {operation} {option} has no {keys}"
        elif getattr(inner, "enum", None):
            assert value in inner.enum, f"aws {service} {operation} {option}: {value} is none of {inner.enum}"


def _waited_for(service: str, waiter: str) -> str:
    """The operation that a waiter of a service calls."""
    waiters = botocore.session.get_session().get_waiter_model(service)
    named = {xform_name(name, "-"): name for name in waiters.waiter_names}
    assert waiter in named, f"aws {service} wait has no {waiter}"
    return str(waiters.get_waiter(named[waiter]).operation)


@cache
def _model(service: str) -> Any:
    service = {"s3api": "s3"}.get(service, service)  # what the command line calls the calls of S3
    session = botocore.session.get_session()
    assert service in session.get_available_services(), f"aws {service}: there is no such service"
    return session.get_service_model(service)
