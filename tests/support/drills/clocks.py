"""Drill of clocks: those of workers and tickers are wrong by an hour, from their start and by a jump, forwards and backwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quarterjack.clock import NEAR

from bench.hurried.wrong_clock import VARIABLE
from tests.support.drills.siege import Drill, Siege

_HOUR = 3_600  # seconds
_LEASES = 3  # for so many lease times, 12 s, each error lasts


def _files(siege: Siege) -> dict[str, Path]:
    """By process, the file that says by how many seconds its clock is off."""
    return {name: siege.folder / f"{name}.clock" for name in siege.troupe.names if name != "undertaker"}


def _set_right(siege: Siege) -> None:
    for name, file in _files(siege).items():
        file.write_text("0")
        siege.environ[name] = siege.environ[name] | {VARIABLE: str(file)}


def _set_wrong(siege: Siege) -> None:
    """The first ticker and the first worker an hour ahead, the others an hour behind; later the other way round."""
    signs = {name: 1 if name.endswith("-1") else -1 for name in _files(siege)}
    for name, file in _files(siege).items():
        file.write_text(str(signs[name] * _HOUR))
        siege.redeploy(name)
    siege.go_on(_LEASES * siege.plan.pace.lease)
    for name, file in _files(siege).items():
        file.write_text(str(-signs[name] * _HOUR))
    siege.go_on(_LEASES * siege.plan.pace.lease)


def _synchronise(siege: Siege) -> None:
    corrected = [name for name in _files(siege) if '"clock.corrected"' in (siege.folder / f"{name}.log").read_text()]
    assert corrected == [*_files(siege)], f"only these noticed that their clock is wrong: {corrected}"
    siege.quarterjack("workers", "list")
    siege.type("sudo chronyc makestep")
    _set_right(siege)


WRONG_CLOCKS = Drill(
    name="wrong clocks",
    done="Workers and tickers start with clocks an hour ahead and behind; 12 s later each clock jumps by two hours. "
    "Starts may be a second early.",
    runbook="wrong-clock",
    prepare=_set_right,
    act=_set_wrong,
    procedure=_synchronise,
    explains=frozenset({"asked to end"}),
    plan=lambda plan: replace(plan, skew=NEAR),  # a clock that was corrected knows the second
)
