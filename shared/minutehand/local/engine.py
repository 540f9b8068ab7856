"""The emulator process: MiniStack, with a guard around its application and with one function of it replaced.

``ministack.app`` is asked for its public names ``app``, ``main`` and ``AUTH`` only: ``main`` serves ``app``, which is wrapped so that
each request needs the access key of this start (``access``).

One private function is replaced, ``_evaluate_condition`` of ``ministack.services.dynamodb`` (in ``parse_once``, and nowhere else): it
parses the key condition of a query once for each item of the partition. A tenant's schedules are one partition: with 10,000 of them a
page of 100 took 0.2 s, nearly all of it parsing. The meaning of a condition stays MiniStack's, except for that of most queries, one key
equal to a text. A release without these names is left as it is.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from minutehand.local.access import Asgi, guarded

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


def guarded_emulator(app: Asgi, *, authorises: bool) -> Asgi:
    """MiniStack's application for requests with the access key of this process's environment, or with keys that MiniStack issued.

    MiniStack starts Lambda functions with the account's number as access key, which is no secret, and with the session token of this
    process. So the access key becomes that token, too. Where MiniStack ``authorises`` (AUTH=true), functions have keys that it issued.
    """
    key = os.environ["AWS_ACCESS_KEY_ID"]
    if not authorises:
        os.environ["AWS_SESSION_TOKEN"] = key
    return guarded(app, [key], _is_issued)


def _is_issued(access_key: str, session_token: str | None) -> bool:
    """Whether it is a key of an IAM user or of an assumed role. Keys that stand for an account are no secret."""
    iam = import_module("ministack.core.iam_evaluator")
    if iam.is_root_access_key(access_key):
        return False
    account = iam.find_iam_access_key_account(access_key)
    return isinstance(iam.resolve_credential(access_key, account, session_token), iam.ResolvedCredential)


def main() -> None:
    """Run MiniStack until it is told to end."""
    parse_once(import_module("ministack.services.dynamodb"))
    emulator: Any = import_module("ministack.app")
    emulator.app = guarded_emulator(emulator.app, authorises=emulator.AUTH)
    emulator.main()


if __name__ == "__main__":
    main()
