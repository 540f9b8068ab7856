"""MiniStack, cured of one habit: a query parses its key condition once, and not once for each item of the partition.

A tenant's schedules are one partition: with 10,000 of them a page of 100 took 0.2 s, nearly all of it parsing. What a condition means
stays MiniStack's to say, but for that of most queries, one key equal to a text; a release that works otherwise is left as it is.
"""

from __future__ import annotations

import runpy
from importlib import import_module
from typing import Any

_KEYS = "KeyConditionExpression"
_EQUALITY = 4  # tokens of the simplest condition, its end included
_MOST = 1_000  # conditions remembered: this package has a few dozen


def parse_once(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB remember the key conditions that it has checked."""
    if not all(hasattr(dynamodb, name) for name in ("_evaluate_condition", "_tokenize", "_ExprEval")):
        return
    evaluate, parsed = dynamodb._evaluate_condition, dict[str, Any]()  # noqa: SLF001 (there is no other way in)

    def remembering(expression: str, item: Any, values: Any, names: Any, slot: str = "ConditionExpression") -> Any:
        if slot == _KEYS and expression in parsed:
            tokens = parsed[expression]
            equal = _is_equal(tokens, item, values, names) if len(tokens) == _EQUALITY else None
            return dynamodb._ExprEval(tokens, item, values, names).evaluate() if equal is None else equal  # noqa: SLF001 (the same)
        result = evaluate(expression, item, values, names, slot=slot)
        if slot == _KEYS and len(parsed) < _MOST:
            parsed[expression] = dynamodb._tokenize(expression)  # noqa: SLF001 (the same)
        return result

    dynamodb._evaluate_condition = remembering  # noqa: SLF001 (the same)


def _is_equal(tokens: Any, item: Any, values: Any, names: Any) -> bool | None:
    """What ``#key = :text`` means, the condition of most queries. None: it is something else."""
    (kind, name), (operator, _), (ref, value), _end = tokens
    if (kind, operator, ref) != ("NAME_REF", "EQ", "VALUE_REF"):
        return None
    wanted = values.get(value)
    return bool(item.get(names.get(name)) == wanted) if isinstance(wanted, dict) and "S" in wanted else None


if __name__ == "__main__":
    parse_once(import_module("ministack.services.dynamodb"))
    runpy.run_module("ministack", run_name="__main__", alter_sys=True)
