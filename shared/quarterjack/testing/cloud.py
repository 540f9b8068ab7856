"""The local cloud in tests. ``quarterjack.testing.plugin`` has it as pytest fixtures."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.installation import provision
from quarterjack.settings import Settings
from quarterjack.values import replace


@contextmanager
def running_cloud() -> Iterator[LocalCloud]:
    """A cloud for the duration of the block, and its credentials in this process's environment.

    ``AWS_ENDPOINT_URL`` is *not* set, so that tests against other endpoints can run beside it. Pass ``cloud.endpoint`` on, as
    ``fresh_settings`` does.
    """
    with LocalCloud() as cloud, reached_by_this_process(cloud.credentials):
        yield cloud


def fresh_settings(cloud: LocalCloud, **changes: object) -> Settings:
    """Settings of a new installation, whose tables, queues and bucket it creates.

    ``changes`` are fields of Settings.
    """
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    bucket = f"{prefix}-payloads"
    settings = Settings(prefix=prefix, endpoint=cloud.endpoint, region=cloud.region, bucket=bucket, shards=4)
    settings = replace(settings, **changes)  # type: ignore[arg-type]  # a wrong field raises TypeError
    provision(settings)
    return settings
