"""MiniStack's conditions and filters, parsed once a text.

MiniStack (1.5) parses the condition of a write at each write, and that of a query once for each item of the partition. A tenant's
schedules are one partition: with 10,000 of them a page of 100 took 0.2 s, nearly all of it parsing. ``quicken_conditions`` replaces
functions of ``ministack.services.dynamodb``. The meaning of a condition stays MiniStack's; a release without these names is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

Values = Mapping[str, Any]
Check = Callable[[Values, Values, Values], bool]  # of an item, values and names

_NEEDED = "_evaluate_condition", "_tokenize", "_condition_syntax_error", "_compare_ddb"
_KEYS = "KeyConditionExpression"
_MOST = 1_000  # texts remembered: this package has a few dozen
_COMPARISONS = ("EQ", "LT", "LE", "GT", "GE")
_BETWEEN = ["NAME_REF", "IDENT", "VALUE_REF", "IDENT", "VALUE_REF"]


def quicken_conditions(dynamodb: Any) -> None:
    """Let MiniStack's module of DynamoDB remember the expressions that it has parsed."""
    if not all(hasattr(dynamodb, name) for name in _NEEDED):
        return
    for name in ("_tokenize", "_condition_syntax_error"):
        setattr(dynamodb, name, lru_cache(_MOST)(getattr(dynamodb, name)))
    evaluate, checks = dynamodb._evaluate_condition, dict[str, Check | None]()  # noqa: SLF001 (there is no other way in)

    def remembering(expression: str, item: Values, values: Any, names: Any, slot: str = "ConditionExpression") -> Any:
        check = checks.get(expression) if slot == _KEYS else None
        if check is not None:
            try:
                return check(item, values, names)
            except LookupError:  # a name or value is not given: MiniStack says so
                pass
        result = evaluate(expression, item, values, names, slot=slot)
        if slot == _KEYS and expression not in checks and len(checks) < _MOST:
            checks[expression] = _check(dynamodb._tokenize(expression), dynamodb._compare_ddb)  # noqa: SLF001 (the same)
        return result

    dynamodb._evaluate_condition = remembering  # noqa: SLF001 (the same)


def _check(tokens: Sequence[tuple[str, str]], compare: Callable[[Any, str, Any], bool]) -> Check | None:
    """The function of a condition of comparisons that are ANDed, each with its name in front; None for another condition."""
    left = [token for token in tokens[:-1] if token[0] not in ("LPAREN", "RPAREN")]  # the last one is the end
    found = list[tuple[str, str, str]]()  # name, comparison and value
    while True:
        kinds, texts = [kind for kind, _ in left[:5]], [text for _, text in left[:5]]
        if kinds[:1] == ["NAME_REF"] and kinds[1:2] and kinds[1] in _COMPARISONS and kinds[2:3] == ["VALUE_REF"]:
            found.append((texts[0], texts[1], texts[2]))
            left = left[3:]
        elif kinds == _BETWEEN and texts[1].upper() == "BETWEEN" and texts[3].upper() == "AND":
            found += [(texts[0], ">=", texts[2]), (texts[0], "<=", texts[4])]
            left = left[5:]
        else:
            return None
        if not left:
            break
        if left.pop(0)[1].upper() != "AND":
            return None

    def check(item: Values, values: Values, names: Values) -> bool:
        return all(compare(item.get(names[name]), sign, values[value]) for name, sign, value in found)

    return check
