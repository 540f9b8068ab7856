"""State that the checks share: the installation, and the results of earlier checks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from minutehand.doctor.probe import AwsProbe
from minutehand.domain.schedule import Head
from minutehand.ports.services import Clock, Services
from minutehand.services import connect
from minutehand.settings import Settings


@dataclass(kw_only=True)
class DoctorContext:
    """The installation that is checked."""

    settings: Settings
    probe: AwsProbe
    clock: Clock  # UTC ms
    packages: tuple[str, ...] = ()  # whose jobs should be importable
    sample: int = 50  # schedules to look at
    chance: random.Random = field(default_factory=random.Random)
    tables: set[str] = field(default_factory=set)  # suffixes of those that are there and readable
    queues: dict[str, Mapping[str, str]] = field(default_factory=dict)  # attributes of those that are there, by suffix
    shards: int = 0  # of the agenda; 0: not known
    active: list[Head] = field(default_factory=list)  # the sampled schedules that are ACTIVE

    @cached_property
    def services(self) -> Services:
        """The services, connected as everywhere else."""
        return connect(self.settings)
