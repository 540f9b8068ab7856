"""The runbooks' pages as an alarm's message brings them along: who is woken reads the first steps without any address."""

from __future__ import annotations

import re
from pathlib import Path

from quarterjack.errors import QuarterjackError

MOST = 1_024  # characters of the description of an alarm of CloudWatch
FOLDER = "docs/runbooks"  # of the pages in the project
_HERE = Path(__file__).parent
# In the checkout, and in an installed package, whose wheel has the pages beside this one.
_FOLDERS = (_HERE.parents[1] / FOLDER, _HERE.parent / "runbooks")
_STEP = re.compile(r"^\d+\. ", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)]\([^)]+\)")
_OURS = re.compile(r"\bquarterjack-(?=[a-z])")  # begins the names of an installation's parts, as the pages have them
_FAR = "…"


def page_of(alarm: str) -> str:
    """The text of an alarm's page. Raises QuarterjackError if the package lacks it."""
    for folder in _FOLDERS:
        path = folder / f"{alarm}.md"
        if path.is_file():
            return path.read_text("utf-8")
    raise QuarterjackError(
        f"the runbook of {alarm!r} is not in this package; install the published wheel, or a checkout"
    )


def steps_of(page: str, prefix: str) -> list[str]:
    """What a page says under "Look first" and "Steps": of each step its words up to the first command, and its commands.

    Names of parts begin with the ``prefix`` of the installation.
    """
    first, steps = (_section(page, name) for name in ("Look first", "Steps"))
    parts = _STEP.split(steps)[1:] or [steps]
    found = [_said("First", first), *(_said(str(number), part) for number, part in enumerate(parts, 1))]
    return [_OURS.sub(f"{prefix}-", step) for step in found if step]


def _section(page: str, name: str) -> str:
    return page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def _said(number: str, part: str) -> str:
    """A step in one line: ``2. Its concurrency is 0: `aws …`; `aws …` ``. Without a command it is left to the page."""
    lines = part.splitlines()
    commands = [line.strip().partition("    #")[0].strip() for line in lines if line.startswith("    ")]
    if not commands:
        return ""
    words = next((line for line in lines if line and not line.startswith("    ")), "")
    lead = _LINK.sub(r"\1", words).replace("**", "").strip().rstrip(":.")
    typed = "; ".join(f"`{command}`" for command in commands)
    return f"{number}: {typed}" if number == "First" else f"{number}. {lead}: {typed}"


def with_steps(begin: str, alarm: str, prefix: str) -> str:
    """An alarm's description: ``begin``, as many steps of its page as CloudWatch takes, and where the rest stands."""
    end = f"All steps: {FOLDER}/{alarm}.md"
    text = begin
    for step in steps_of(page_of(alarm), prefix):
        longer = f"{text}\n{step}"
        if len(f"{longer}\n{_FAR} {end}") > MOST:
            return f"{text}\n{_FAR} {end}"
        text = longer
    return f"{text}\n{end}"
