"""Each scene's cure stands on the page of its alarm."""

from __future__ import annotations

import pytest

from tests.support.doc_pages import ROOT
from tests.support.nights.operator import runbook
from tests.support.nights.scenes import INCIDENTS, SCENES, Scene


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_what_cures_a_fault_stands_on_its_page(scene: Scene) -> None:
    lines = list(runbook(scene.page).shell_lines())
    assert scene.alarm.startswith(scene.page)
    assert not scene.act or any(line.startswith(scene.act) for line in lines)
    assert not scene.knows or any(set(scene.knows) & set(line.split()) for line in lines)


def test_every_page_has_a_scene() -> None:
    pages = {path.stem for path in (ROOT / "docs/runbooks").glob("*.md")} - {"README"}
    assert {scene.page for scene in SCENES} | set(INCIDENTS) == pages
