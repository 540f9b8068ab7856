"""The doctor asks what one check needs at the same time: its 225 requests of 50 schedules would take 40 s where each takes 150 ms."""

from __future__ import annotations

from threading import Barrier
from typing import Any

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.doctor import Finding, Severity, run_checks, schedules
from quarterjack.doctor.context import AwsProbe, ProbeAnswer, at_once
from quarterjack.errors import Unavailable
from quarterjack.owner.schedules.chain_health import check_chain
from quarterjack.stores.tables import TABLES

pytestmark = pytest.mark.cloud

PATIENCE = 30  # seconds until a request that waits for the others fails


def of_check(settings: Settings, check: str) -> list[Finding]:
    return [finding for finding in run_checks(settings) if finding.check == check]


def test_tables_are_described_at_the_same_time_and_named_in_their_order(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, call = Barrier(len(TABLES)), AwsProbe.call

    def waits(probe: AwsProbe, service: str, operation: str, /, **arguments: Any) -> ProbeAnswer:
        if operation == "describe_table":
            together.wait(PATIENCE)
        return call(probe, service, operation, **arguments)

    monkeypatch.setattr(AwsProbe, "call", waits)
    found = of_check(local_settings, "tables")
    assert [finding.what for finding in found] == [local_settings.table(table.suffix) for table in TABLES]


def test_chains_are_read_at_the_same_time(local_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        Scheduler(settings=local_settings).create_schedule(f"s{number}", "j", "0 0 * * *")
    together = Barrier(8)

    def waits(*given: Any) -> Any:
        together.wait(PATIENCE)
        return check_chain(*given)

    monkeypatch.setattr(schedules, "check_chain", waits)
    (found,) = of_check(local_settings, "chains")
    assert (found.verdict, found.what[:18]) == (Severity.OK, "8 active schedules")


def test_a_read_that_is_refused_leaves_the_other_checks(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scheduler(settings=local_settings).create_schedule("s", "j", "0 0 * * *")

    def refused(*_: object) -> None:
        raise Unavailable("throttled")

    monkeypatch.setattr(schedules, "check_chain", refused)
    checks = {finding.check: finding.what for finding in run_checks(local_settings)}
    assert checks["chains"] == "not checked: throttled"
    assert "backlog" in checks


def test_nothing_is_asked_of_nothing() -> None:
    assert at_once(str, ()) == []
