"""An operator who is woken: opens the page that an alarm links, and types what stands there, line by line.

Commands of Quarterjack are executed over the night's installation. Of other programs (``aws``, ``cdk``, ``kubectl``) those that only look
are passed over, and those that change something do what the test says that they do to the fault: each of these has to be on the page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.command_line import Said
from tests.support.doc_pages import Page, page
from tests.support.nights.command_line import NightShell
from tests.support.nights.night import Night

SECTIONS = ("What it means", "Look first", "Steps", "It is over when")
_LOOKS = re.compile(r"(get|list|describe|filter|tail|head|test)\b")
_PLACE = re.compile(r"\b[A-Z][A-Z_]{2,}\b")
_STANDING = ("worker", "ticker", "undertaker", "historian")  # commands that run until they are stopped

Act = Callable[[], object]


def runbook(alarm: str) -> Page:
    """The page of an alarm."""
    return page(f"docs/runbooks/{alarm}.md")


@dataclass
class Operator:
    """``acts``: what a command does, by its beginning. ``knows``: the words that stand for places in capitals.

    ``said`` is what the commands of Quarterjack printed, in order.
    """

    night: Night
    acts: Mapping[str, Act] = field(default_factory=dict)
    knows: Mapping[str, str] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)

    def follow(self, alarm: str) -> Operator:
        """Type every line of the page that can be typed. Fails if a command fails, or an act is not on the page."""
        done = set[str]()
        for line in runbook(alarm).shell_lines():
            for command in re.split(r"\s*&&\s*", line):
                done |= set(self._type(command))
        missing = self.acts.keys() - done
        assert not missing, f"docs/runbooks/{alarm}.md does not say what cures this: {missing}"
        return self

    def _type(self, command: str) -> Iterator[str]:
        """One command; yields the act that it was."""
        act = next((begin for begin in self.acts if command.startswith(begin)), None)
        if act is not None:
            self.typed.append(command)
            self.acts[act]()
            yield act
            return
        filled = _PLACE.sub(lambda found: self.knows.get(found[0], found[0]), command)
        words = shlex.split(filled)
        if words[0] != "quarterjack" or words[1] in _STANDING or any(map(_PLACE.fullmatch, words)):
            return  # it does not apply: another cause of the same alarm
        self.typed.append(filled)
        said = NightShell(self.night).say(*words[1:])
        self.said.append(said)
        finds = words[1] == "doctor" or "--expect" in words or "verify" in words
        assert said.code == 0 or (finds and said.code in (1, 3)), f"{filled}: {said.err or said.out}"

    @property
    def read(self) -> str:
        """All that the commands printed."""
        return "\n".join(said.out + said.err for said in self.said)


def changes(command: str) -> bool:
    """Whether a command of ``aws`` changes something."""
    words = shlex.split(command)
    return words[0] == "aws" and len(words) > 2 and not _LOOKS.match(words[2])
