"""A seed of the simulator is one history: what broke once can be played again, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.parts import in_rotation

ROOT = Path(__file__).parents[2]
PLAYED = """
from hashlib import sha256
from quarterjack.domain.times import MINUTE
from quarterjack.state.backpressure import Limits
from tests.support.histories.governed import Governed
from tests.support.histories.simulator import HOSTILE

class Short(Governed):
    busy, rest_for, audits, limits = 5 * MINUTE, MINUTE, (), Limits(depth=10)

history = Short(40_000, HOSTILE)
history.stage.timeline = []
history.judged()
print(history.stage.calls, sha256("\\\\n".join(history.stage.timeline).encode()).hexdigest())
"""


@in_rotation(of=4)
def test_a_seed_is_the_same_history_in_processes_whose_sets_have_another_order() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared")))}
    played = [
        subprocess.Popen(
            [sys.executable, "-c", PLAYED],
            cwd=ROOT,
            env=environment | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = [process.communicate()[0].split() for process in played]
    assert first == second
    assert int(first[0]) > 5_000
