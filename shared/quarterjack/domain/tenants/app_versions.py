"""Application versions: the releases of an application's jobs, and which of them a run is assigned to. Pure.

The version with the greatest timestamp is the latest. A run is assigned to it, unless it takes a share of the runs alone: then the version
before it takes the others. A run's number decides, which follows from its id, so a retry and a replay agree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from quarterjack.errors import InvalidInput, NotFound
from quarterjack.values import replace, value

MOST_VERSIONS = 100  # that are stored; the oldest that takes no run makes room
VERSION_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,63}"
_NAME = re.compile(VERSION_PATTERN)


@value(kw_only=True)
class AppVersion:
    """One release of an application."""

    name: str  # version_name
    id: str  # version_id
    timestamp: int  # version_timestamp: UTC ms, moved when it becomes the latest
    created_at: int  # UTC ms
    share: float = 1.0  # of the runs that no later version takes, 0 to 1
    moved_to: str | None = None  # the version that takes its runs since it was retired; None: it was not


@value(kw_only=True)
class AppVersions:
    """All versions of an installation, as its row has them."""

    versions: tuple[AppVersion, ...] = ()  # the latest first
    number: int = 0  # of the stored row; 0: not stored

    @property
    def latest(self) -> AppVersion | None:
        """The version with the greatest timestamp of those that were not retired."""
        return next((version for version in self.versions if version.moved_to is None), None)

    @cached_property
    def takers(self) -> tuple[tuple[str, float], ...]:
        """The versions that runs are assigned to, each with the number below which a run is its."""
        found, left = list[tuple[str, float]](), 1.0
        for version in self.versions:
            if version.moved_to is not None:
                continue
            taken = left * version.share
            if taken > 0:
                found.append((version.name, 1.0 - left + taken))
            left -= taken
            if left <= 0:
                break
        return tuple(found)

    def assigned(self, run_id: str) -> str | None:
        """The version that a run is assigned to; None: there is none. ``run_id``: of a replay that of the run it repeats."""
        takers = self.takers
        if len(takers) < 2:
            return takers[0][0] if takers else None
        number = _number_of(run_id)
        return next((name for name, below in takers if number < below), takers[-1][0])

    def find(self, name: str) -> AppVersion | None:
        """The version of that name."""
        return next((version for version in self.versions if version.name == name), None)

    def must_have(self, name: str) -> AppVersion:
        """The version of that name. Raises NotFound."""
        found = self.find(name)
        if found is None:
            known = ", ".join(version.name for version in self.versions[:5]) or "none"
            raise NotFound(f"version={name!r} was never registered: a worker of it has to start first; known: {known}")
        return found

    def registered(self, version: AppVersion) -> AppVersions:
        """With one version more."""
        found = sorted((*self.versions, version), key=lambda each: each.timestamp, reverse=True)
        while len(found) > MOST_VERSIONS:
            kept = {name for name, _ in replace(self, versions=tuple(found)).takers} | {version.name}
            found.remove(next(each for each in reversed(found) if each.name not in kept))
        return replace(self, versions=tuple(found))

    def with_latest(self, name: str, *, share: float, now: int) -> AppVersions:
        """With that version as the latest. Raises NotFound."""
        found = self.must_have(name)
        others = [version for version in self.versions if version.name != name]
        greatest = max((version.timestamp for version in others), default=0)
        moved = replace(found, timestamp=max(now, greatest + 1), share=share, moved_to=None)
        return replace(self, versions=(moved, *others))

    def retired(self, name: str, to: str) -> AppVersions:
        """Without runs of a version: another one takes them. Raises NotFound, InvalidInput."""
        self.must_have(name)
        self.must_have(to)
        if self.resolved(to) == name:
            raise InvalidInput("to", to, f"is {name!r} itself, or was retired to it", "name a version that takes runs")
        return replace(
            self, versions=tuple(replace(each, moved_to=to) if each.name == name else each for each in self.versions)
        )

    def resolved(self, name: str) -> str:
        """The version that takes the runs of a version."""
        found = self.find(name)
        while found is not None and found.moved_to is not None:
            name = found.moved_to
            found = self.find(name)
        return name

    def body(self) -> list[dict[str, Any]]:
        """As JSON values."""
        return [vars(version) for version in self.versions]


def versions_of(number: int, body: list[Mapping[str, Any]]) -> AppVersions:
    """The reverse of ``body``. Raises KeyError, TypeError, ValueError."""
    found = tuple(
        AppVersion(
            name=str(each["name"]),
            id=str(each["id"]),
            timestamp=int(each["timestamp"]),
            created_at=int(each["created_at"]),
            share=float(each["share"]),
            moved_to=each.get("moved_to"),
        )
        for each in body
    )
    return AppVersions(versions=found, number=number)


def check_version(name: object, field: str = "version") -> str:
    """The name of a version. Raises InvalidInput."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        remedy = "use 1 to 64 letters, digits and . _ + @ -, of which the first is a letter or a digit"
        raise InvalidInput(field, name, "is not a valid name of a version", remedy)
    return name


def is_pinned(field: str, word: object) -> bool:
    """Whether runs start on workers of their version alone ("assigned"), or on all ("any"). Raises InvalidInput."""
    if word not in ("any", "assigned"):
        raise InvalidInput(field, word, "is not known", "use 'any' or 'assigned'")
    return word == "assigned"


def check_share(share: object) -> float:
    """A share of runs. Raises InvalidInput."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InvalidInput("share", share, "is no share of runs", "use a number from 0 to 1, as 0.1 for a tenth")
    return float(share)


def _number_of(run_id: str) -> float:
    """A number from 0 to 1, evenly spread over runs."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:6], "big") / 2**48
