"""croniter as a second parser of plain cron expressions, when a schedule is created.

croniter gets no zone and computes no fire: ``cron/pattern.py`` and ``zones/wall_clock.py`` do. See docs/adr/0010.
"""

from __future__ import annotations

import re

from minutehand.errors import ExpressionError
from minutehand.timing.cron.pattern import CronPattern
from minutehand.timing.expressions import Expression
from minutehand.timing.rule import Rule

_PLAIN = re.compile(r"[0-9A-Z*?,/\s-]+", re.IGNORECASE)
_EXTENSIONS = re.compile(r"\b(H|L|LW|WL|[0-9]+W|\w+L|L-[0-9]+)\b", re.IGNORECASE)


def check_portable(rule: Rule) -> None:
    """Refuse a plain five-field expression that croniter cannot read: two independent readers must agree on it."""
    from croniter import croniter  # noqa: PLC0415 (only the creation of a schedule needs it; its import would delay the start of functions)

    for expression in rule.plan.expressions:
        if _is_plain(expression) and not croniter.is_valid(expression.text):
            raise ExpressionError(
                "expression", expression.text, "croniter does not read this", "write it in plain cron"
            )


def _is_plain(expression: Expression) -> bool:
    text = expression.text
    plain = isinstance(expression.parsed, CronPattern) and len(text.split()) == 5 and _PLAIN.fullmatch(text)
    return bool(plain) and not _EXTENSIONS.search(text)
