"""The words of an option are written once for people's editors, and say what the enum says that the program uses."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
import quarterjack
from quarterjack.domain import audit, options, policies, run, schedule
from quarterjack.domain.history import entry, transition_line
from quarterjack.domain.tenants import caller
from quarterjack.sdk.schedules.bulk import ACTIONS, BulkAction
from quarterjack.state import backfill

PACKAGE = Path(str(quarterjack.__file__)).parent
WORDS: dict[str, tuple[Any, type[StrEnum]]] = {
    "delivery": (policies.DeliveryWord, policies.Delivery),
    "start": (policies.StartWord, policies.Start),
    "backoff": (policies.BackoffWord, policies.Backoff),
    "isolation": (policies.IsolationWord, policies.Isolation),
    "catch_up": (options.CatchUpWord, options.CatchUp),
    "overlap": (options.OverlapWord, options.Overlap),
    "state of a schedule": (schedule.ScheduleStateWord, schedule.ScheduleState),
    "state of a run": (run.RunStateWord, run.RunState),
    "kind of a run": (entry.RunKindWord, entry.RunKind),
    "kind of a transition": (transition_line.TransitionKindWord, transition_line.TransitionKind),
    "order": (backfill.BackfillOrderWord, backfill.BackfillOrder),
    "via": (caller.ViaWord, caller.Via),
    "act": (audit.AuditActWord, audit.AuditAct),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_literals_are_the_members_of_the_enum(name: str) -> None:
    alias, kind = WORDS[name]
    parts = set(typing.get_args(alias))
    literals = [part for part in parts if typing.get_origin(part) is Literal]
    assert parts == {kind, *literals}, "both the member and its word may be passed"
    words = [word for literal in literals for word in typing.get_args(literal)]
    assert sorted(words) == sorted(kind)


def test_the_actions_of_bulk_are_those_that_it_knows() -> None:
    assert list(typing.get_args(BulkAction)) == list(ACTIONS)


def literals() -> Iterator[tuple[frozenset[str], str]]:
    """The words of each Literal in the package, and the module that writes it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
                words = [item.value for item in ast.walk(node.slice) if isinstance(item, ast.Constant)]
                yield frozenset(word for word in words if isinstance(word, str)), str(path.relative_to(PACKAGE))


def test_each_literal_of_an_option_is_written_once() -> None:
    known = {frozenset(kind) for _, kind in WORDS.values()}
    homes = [(words, home) for words, home in literals() if words in known]
    assert len(homes) == len({words for words, _ in homes}) == len(known)
