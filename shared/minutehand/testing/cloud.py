"""The local cloud in tests: yours and Minutehand's own. ``minutehand.testing.plugin`` offers it as pytest fixtures."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from minutehand.local.cloud import LocalCloud, reached_by_this_process
from minutehand.local.provision import provision
from minutehand.settings import Settings


@contextmanager
def running_cloud() -> Iterator[LocalCloud]:
    """A cloud for the time of the block, and its credentials in this process's environment.

    ``AWS_ENDPOINT_URL`` is *not* set: tests against other endpoints can run beside it. Pass ``cloud.endpoint`` on, as
    ``fresh_settings`` does.
    """
    with LocalCloud() as cloud, reached_by_this_process(cloud.credentials):
        yield cloud


def fresh_settings(cloud: LocalCloud, **changes: object) -> Settings:
    """Settings of an installation that nobody else uses, its tables, queues and bucket created.

    ``changes`` are fields of Settings.
    """
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    bucket = f"{prefix}-payloads"
    settings = Settings(prefix=prefix, endpoint=cloud.endpoint, region=cloud.region, bucket=bucket, shards=4)
    settings = replace(settings, **changes)  # type: ignore[arg-type]  # a wrong field is a TypeError of the caller's
    provision(settings)
    return settings
