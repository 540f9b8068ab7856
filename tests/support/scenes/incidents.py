"""A schedule whose job fails when told to, and what its owner is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quarterjack import Context, Registry, Retry, Schedule
from quarterjack.domain.notice import Notice
from quarterjack.domain.schedule import Head
from quarterjack.testing.process import bury_all

from tests.support.scenes.world import World

TOPIC = "arn:aws:sns:eu-west-1:123456789012:failures"
CALM = "arn:aws:sns:eu-west-1:123456789012:recoveries"


class Boom(Exception):
    """What a broken job raises."""


@dataclass(kw_only=True)
class Scene(World):
    """A world with a job that can be broken and mended."""

    broken: bool = True
    given: list[Any] = field(default_factory=list)  # payloads of the job that is told

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs.job("flaky", retry=Retry(max_attempts=1))(self._flaky)
        self.jobs.job("page", retry=Retry(max_attempts=1))(self._page)

    def _flaky(self, ctx: Context, payload: object) -> None:
        self.note(ctx, payload)
        if self.broken:
            raise Boom("no")

    def _page(self, ctx: Context, payload: object) -> None:
        self.given.append(payload)

    def schedule(self, expression: str = "* * * * *", **options: Any) -> None:
        given: dict[str, Any] = {"on_failure": TOPIC, "on_recovery": CALM}
        self.scheduler.create_schedule("s", "flaky", expression, **(given | options))

    @property
    def head(self) -> Head:
        (head,) = [head for head in self.memory.heads() if head.name == "s"]
        return head

    @property
    def now_is(self) -> Schedule:
        return self.scheduler.get_schedule("s")

    @property
    def told(self) -> list[Notice]:
        """What was published, in order."""
        return [published.notice for published in self.memory.published]

    @property
    def kinds(self) -> list[str]:
        return [str(notice.kind) for notice in self.told]

    def bury(self) -> None:
        bury_all(self.services, self.clock)


def registry_of(scene: Scene) -> Registry:
    return scene.jobs
