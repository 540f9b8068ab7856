"""A seed of the simulator is one history: what broke once can be played again, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.parts import in_turn

ROOT = Path(__file__).parents[2]
GOVERNED = """
from quarterjack.state.backpressure import Limits
from tests.support.histories.governed import Governed

class Short(Governed):
    busy, rest_for, audits, limits = 5 * MINUTE, MINUTE, (), Limits(depth=10)
"""
RECORDED = """
from tests.support.histories.recorded import Recorded

class Short(Recorded):
    busy = 3 * MINUTE

    def _later(self):
        return []
"""
PLAYED = """
import sys
from hashlib import sha256
from quarterjack.domain.times import MINUTE
from tests.support.histories.simulator import HOSTILE
{kind}
for seed in sys.argv[1:]:
    history = Short(int(seed), HOSTILE)
    history.stage.timeline = []
    history.judged()
print(history.stage.calls, sha256("\\n".join(history.stage.timeline).encode()).hexdigest())
"""
SEED = "40000"


@in_turn("kind", [GOVERNED, RECORDED], ["governed", "recorded"], of=4)
def test_a_seed_is_the_same_history_in_any_process(kind: str) -> None:
    """Whatever the order of sets there, and whatever was played before."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared")))}
    played = [
        subprocess.Popen(
            [sys.executable, "-c", PLAYED.format(kind=kind), *before, SEED],
            cwd=ROOT,
            env=environment | {"PYTHONHASHSEED": order},
            stdout=subprocess.PIPE,
            text=True,
        )
        for order, before in (("1", ()), ("2", ("40001",)))
    ]
    first, second = [process.communicate()[0].split() for process in played]
    assert first == second
    assert int(first[0]) > 5_000
