"""What an installation costs without load: the page has what the template says."""

from __future__ import annotations

from collections.abc import Callable

from aws_cdk.assertions import Template

from bench.idle_bill import idle_metrics, rows, table
from tests.support.doc_pages import ROOT


def test_the_page_has_the_bill_of_the_template(with_knobs: Callable[..., Template]) -> None:
    counted = table(with_knobs(queues=[]).to_json()["Resources"])
    page = (ROOT / "docs/explanation/performance.md").read_text()
    assert counted in page, f"write this into docs/explanation/performance.md:\n{counted}"


def test_without_alarms_it_is_a_third(with_knobs: Callable[..., Template]) -> None:
    from infra import AlarmSettings

    def whole(template: Template) -> float:
        return rows(template.to_json()["Resources"])[-1][2]

    assert whole(with_knobs(alarms=AlarmSettings(enabled=False))) < whole(with_knobs()) / 3


def test_metrics_without_load_are_those_that_are_written_and_no_distribution_of_nothing() -> None:
    assert idle_metrics() == ["Ticks", "BehindBy", "QueueDepth", "ReadyRuns", "ExpiredLeases", "Audits"]
