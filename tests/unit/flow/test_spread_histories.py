"""Windows and jitters are changed while fires are on their way, under crashes, lost answers, throttles and stalls."""

from __future__ import annotations

import pytest

from tests.support.histories.simulator import ROUGH
from tests.support.histories.spread import Spread


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.check) for seed in range(2, 10))])
def test_each_instant_starts_once_whatever_is_changed(seed: int) -> None:
    history = Spread(seed, ROUGH)
    assert history.run() == []
    assert history.stage.counts["update"] > 10
