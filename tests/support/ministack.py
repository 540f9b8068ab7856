"""MiniStack's module of DynamoDB: as it is released, and a second one of which parts are replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec
from typing import Any

dynamodb: Any = import_module("ministack.services.dynamodb")


@cache
def fresh_dynamodb(*replace: Callable[[Any], None]) -> Any:
    """The module loaded once more, with a state of its own, after these replacements."""
    spec: Any = dynamodb.__spec__
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert sys.modules[spec.name] is dynamodb, "the first stays the one that is imported"
    for each in replace:
        each(module)
    return module
