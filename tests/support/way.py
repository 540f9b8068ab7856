"""The way of a fire: which modules of ours run between the tick that reads its chain's entry and the acknowledgement of its message.

    .venv/bin/python -m tests.support.way [--full]

One fire goes through an installation in memory, with the tick, the pipeline and the threads of production. A module is on the way if a
function of it runs, a property or a constructor that ``dataclass`` generates for a class of it included. So a module counts that only
holds values, as soon as one is made; a module of constants and enumerations does not. The double in memory (``quarterjack.testing``)
does not count, and with it what stands in its place on AWS: ``dynamodb`` and ``sqs``.
"""

from __future__ import annotations

_DOUBLE = "quarterjack.testing"
