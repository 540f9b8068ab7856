"""Tracebacks as the author of a job reads them."""

from __future__ import annotations

from pathlib import Path

import quarterjack
from quarterjack.cli.runs.logs import of_the_job

OURS = "/var/task/quarterjack/worker/execution/perform.py"
FRAME = f'  File "{OURS}", line 7, in perform\n    return call(\n        payload,\n    )\n    ^^^^^^\n'
THEIRS = '  File "/home/ada/quarterjack/hello.py", line 3, in report\n    raise ValueError(1)\n'
HEADER = "Traceback (most recent call last):\n"


def test_frames_of_this_package_go_wherever_it_is_installed_and_others_stay() -> None:
    assert Path(quarterjack.__file__).with_name("worker").joinpath("execution/perform.py").exists()
    assert of_the_job(HEADER + FRAME + THEIRS + "ValueError: 1\n") == f"{HEADER}{THEIRS}ValueError: 1"


def test_chained_errors_keep_their_parts() -> None:
    between = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = HEADER + THEIRS + "ValueError: 1\n" + between + HEADER + FRAME + THEIRS + "KeyError: 2"
    assert of_the_job(text) == HEADER + THEIRS + "ValueError: 1\n" + between + HEADER + THEIRS + "KeyError: 2"


def test_an_error_of_ours_alone_keeps_its_last_lines() -> None:
    assert (
        of_the_job(HEADER + FRAME + "TimeoutError: after 3 s\n  of waiting") == "TimeoutError: after 3 s\n  of waiting"
    )
