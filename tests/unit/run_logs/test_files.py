"""The lines of a run in the files of processes on this machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from quarterjack.domain.times import to_ms
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.ports.run_logs import RunLogsQuery
from quarterjack.run_logs import files
from quarterjack.run_logs.files import FileRunLogs

from tests.support.run_logs import RUN, line

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def query(begin: int = -60, end: int = 3_600, limit: int = 100, position: str | None = None) -> RunLogsQuery:
    """Seconds from noon."""
    at = [to_ms(NOON + timedelta(seconds=seconds), "at") for seconds in (begin, end)]
    return RunLogsQuery(run_id=RUN, begin=at[0], end=at[1], limit=limit, position=position)


def events(folder: Path, **asked: int) -> list[str]:
    """Of all pages."""
    found, position = list[str](), None
    while True:
        page = FileRunLogs(folder).read(query(**asked, position=position))
        found += [f"{one.source}:{one.fields['event']}" for one in page.lines]
        if page.position is None:
            return found
        position = page.position


def test_the_files_of_a_folder_are_one_list(tmp_path: Path) -> None:
    (tmp_path / "worker-2.log").write_text(line(NOON + timedelta(seconds=2), "two") + "\n")
    (tmp_path / "worker-1.log").write_text(
        "\n".join(
            [
                line(NOON + timedelta(seconds=1), "one"),
                f"printed by a job: {RUN}",
                line(NOON, "another's", run_id=f"{RUN}2"),
                line(NOON + timedelta(seconds=3), "three", amount=7),
                line(NOON + timedelta(seconds=4), "unfinished")[:30],
            ]
        )
    )
    (tmp_path / "notes.txt").write_text(line(NOON, "no log") + "\n")
    assert events(tmp_path) == ["worker-1:one", "worker-2:two", "worker-1:three"]
    assert events(tmp_path, limit=1) == ["worker-1:one", "worker-2:two", "worker-1:three"]


def test_only_lines_within_the_interval(tmp_path: Path) -> None:
    texts = [line(NOON + timedelta(seconds=n), str(n)) for n in (-90, -61, -60, 0, 3_600, 3_601, 9_000)]
    (tmp_path / "w.log").write_text("\n".join(texts) + "\n")
    assert events(tmp_path) == ["w:-60", "w:0", "w:3600"]


def test_a_large_file_is_read_from_the_interval_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a read looks at a bounded part of it: the next one goes on."""
    monkeypatch.setattr(files, "_MOST", 100_000)
    with (tmp_path / "w.log").open("w") as log:
        for second in range(20_000):
            log.write(line(NOON + timedelta(seconds=second - 10_000), "noise", run_id="other") + "\n")
            log.write("printed\n" * (second % 7 == 0))
            if second % 1_000 == 0:
                log.write(line(NOON + timedelta(seconds=second - 10_000), str(second - 10_000)) + "\n")
    assert (tmp_path / "w.log").stat().st_size > 2_000_000
    assert events(tmp_path, begin=0, end=2_000) == ["w:0", "w:1000", "w:2000"]
    first = FileRunLogs(tmp_path).read(query(begin=-9_999, end=9_000))
    assert not first.lines
    assert first.position is not None
    assert events(tmp_path, begin=-9_999, end=9_000) == [f"w:{n}" for n in range(-9_000, 9_001, 1_000)]


def test_a_part_without_any_time_does_not_stop_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST", 1_000)
    (tmp_path / "w.log").write_text("printed\n" * 10_000 + line(NOON, "found") + "\n")
    assert events(tmp_path) == ["w:found"]


def test_lines_that_stand_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    at = [timedelta(milliseconds=ms) for ms in (500, 100, 1_200, 900)]
    (tmp_path / "w.log").write_text("".join(line(NOON + ms, str(ms.microseconds // 1_000)) + "\n" for ms in at))
    assert events(tmp_path) == ["w:100", "w:500", "w:900", "w:200"]


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"QUARTERJACK_LOGS=.*nowhere.*quarterjack local"):
        FileRunLogs(tmp_path / "nowhere").read(query())


def test_an_altered_position_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.log").write_text(line(NOON) + "\n")
    with pytest.raises(InvalidInput, match="no place in a file"):
        FileRunLogs(tmp_path).read(query(position='[0, {}, {"w": "-7"}]'))
