"""The list of mutants fits the code: one that does not apply any more proves nothing."""

from __future__ import annotations

from tests.support.mutants import MUTANTS, stale


def test_every_mutant_applies() -> None:
    assert stale(MUTANTS) == [], "bring its text up to the code"
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
