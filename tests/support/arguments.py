"""What the programs of the proof are asked for. Nothing asked would be nothing tried, and that must not look like a proof."""

from __future__ import annotations

import argparse
import math
from typing import Any


def seconds(text: str) -> float:
    """A length of time, for an argument of argparse."""
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not 0 < given < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time; give seconds, more than 0")
    return given


def number(text: str) -> int:
    """How many, likewise."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of them; give 1 or more")
    return int(text)


def untyped(thing: object) -> Any:
    """The same object without its type: for arguments whose names a test makes."""
    return thing
