"""Every drill on real processes over the local cloud: no run is lost, and none starts twice without an explanation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from quarterjack.local.cloud import LocalCloud

from tests.support.doc_pages import page
from tests.support.drills.registry import DRILLS
from tests.support.drills.siege import Drill, conduct

pytestmark = [pytest.mark.proof, pytest.mark.cloud]


@pytest.mark.parametrize("drill", [pytest.param(drill, id=name) for name, drill in DRILLS.items()])
def test_a_drill_loses_no_run(drill: Drill, local_cloud: LocalCloud, tmp_path: Path) -> None:
    result = conduct(drill, local_cloud, tmp_path / "siege", print)
    print(result.summary)  # noqa: T201 (figures to report)
    assert result.violations == [], f'python -m tests.support.drills --keep "{drill.name}"'
    text = re.sub(r" --tenant \S+", "", page(f"docs/{drill.page}.md").text)
    assert result.commands, "the operator did nothing"
    said = [re.sub(r"^([A-Z_]+=\S+ )+", "", command) for command in result.commands]  # without variables before it
    assert [command for command in said if " ".join(command.split()[:2]) not in text] == []
