"""A data directory whose state cannot be read: the cloud does not start empty and write that over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud


@pytest.mark.parametrize(
    "text", ['{"__ministack_format__": 99, "payload": {}}', '{"__ministack_format__": 2, "pay', "[]"]
)
def test_a_state_that_cannot_be_read_is_refused_and_stays(text: str, tmp_path: Path) -> None:
    state = tmp_path / "state" / "snapshot-000000000001" / "dynamodb.json"
    state.parent.mkdir(parents=True)
    state.write_text(text)
    with pytest.raises(Misconfigured, match="cannot be read and was left as it is"), LocalCloud(data=tmp_path):
        pass
    assert state.read_text() == text
