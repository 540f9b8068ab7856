"""MiniStack, cured of one habit: a query parses its key condition once, and not once for each item of the partition.

A tenant's schedules are one partition: with 10,000 of them a page of 100 took 0.2 s, nearly all of it parsing. What a condition means
stays MiniStack's to say, and a release of it that works otherwise is left as it is.
"""

from __future__ import annotations

import runpy
from importlib import import_module
from typing import Any

_KEYS = "KeyConditionExpression"
_MOST = 1_000  # conditions remembered: this package has a few dozen


def parse_once(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB remember the key conditions that it has checked."""
    if not all(hasattr(dynamodb, name) for name in ("_evaluate_condition", "_tokenize", "_ExprEval")):
        return
    evaluate, parsed = dynamodb._evaluate_condition, dict[str, Any]()  # noqa: SLF001 (there is no other way in)

    def remembering(expression: str, item: Any, values: Any, names: Any, slot: str = "ConditionExpression") -> Any:
        if slot == _KEYS and expression in parsed:
            return dynamodb._ExprEval(parsed[expression], item, values, names).evaluate()  # noqa: SLF001 (the same)
        result = evaluate(expression, item, values, names, slot=slot)
        if slot == _KEYS and len(parsed) < _MOST:
            parsed[expression] = dynamodb._tokenize(expression)  # noqa: SLF001 (the same)
        return result

    dynamodb._evaluate_condition = remembering  # noqa: SLF001 (the same)


if __name__ == "__main__":
    parse_once(import_module("ministack.services.dynamodb"))
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)
