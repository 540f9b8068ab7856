"""Every answer of ``why`` agrees with what the simulator knows, whenever it is asked, under all faults."""

from __future__ import annotations

from collections import Counter

import pytest
from quarterjack import Verdict
from quarterjack.why import workers
from quarterjack.why.answer import count

from tests.support import simulate
from tests.support.parts import in_turn

# They found a drain that became a deletion, a fire in the asked second, a later run that cancels, a deletion by a slow clock, a gap
# beyond the end of its revision, and a pause whose deletion was nearer to its clamped end.
SEEDS = (1, 4, 13, 18, 22, 46, 81, 249, 263, 375, 492)
MANY, PARTS = 1_000, 8
SEEN = 180  # answers of a history at least, on average


def answers_of(seed: int) -> Counter[str]:
    """The number of answers of a history by verdict, and of sentences about workers."""
    found = simulate.play(seed, "why")
    assert found.violations == [], f"python -m tests.support.simulate --kind why --only {seed}"
    return Counter({what: len(each) for what, each in found.durations.items()})


def of_kind(answers: Counter[str], kind: str) -> Counter[str]:
    return Counter({what.removeprefix(kind): number for what, number in answers.items() if what.startswith(kind)})


@in_turn("seed", SEEDS, [str(seed) for seed in SEEDS], of=3)
def test_every_answer_agrees_with_the_history(seed: int) -> None:
    answers = of_kind(answers_of(seed), "answered ")
    assert answers.total() > 50
    assert len(answers) > 5


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_every_answer_agrees_in_many_histories(part: int) -> None:
    all_of_it = sum(map(answers_of, range(part, MANY, PARTS)), Counter[str]())
    answers, heard = of_kind(all_of_it, "answered "), of_kind(all_of_it, "heard ")
    assert answers.total() > SEEN * MANY // PARTS
    assert set(answers) >= set(Verdict) - {Verdict.UNKNOWN}  # that one is said amid faults, of what could not be read
    assert set(heard) >= {"no_worker", "workers at hand"}


def test_what_is_said_of_workers_and_is_not_so_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "count", lambda number, what: count(number + 1, what))
    found = simulate.play(2, "why").violations
    assert any(text.startswith("workers: ") and "slots" in text for text in found)
