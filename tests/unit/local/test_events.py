"""Following the logs of processes as they grow."""

from __future__ import annotations

from pathlib import Path

from quarterjack.local.processes import LogFollower


def test_new_lines_are_read_once_and_only_when_complete(tmp_path: Path) -> None:
    log = tmp_path / "worker-1.log"
    follower = LogFollower(log)
    assert list(follower.new()) == []
    with log.open("a") as file:
        file.write('{"event":"run.started","run_id":"a"}\n{"event":"run.')
        file.flush()
        assert list(follower.new()) == [("worker-1", {"event": "run.started", "run_id": "a"})]
        file.write('ended"}\n')
        file.flush()
        assert list(follower.new()) == [("worker-1", {"event": "run.ended"})]
        assert list(follower.new()) == []


def test_what_is_not_ours_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "worker-1.log"
    follower = LogFollower(log)
    log.write_bytes(b'Traceback (most recent call last):\n\xff\xfe\n[1]\n{"level":"INFO"}\n{"event":"tick.done"}\n')
    assert [event["event"] for _, event in follower.new()] == ["tick.done"]


def test_what_was_logged_before_is_the_past(tmp_path: Path) -> None:
    log = tmp_path / "ticker-1.log"
    log.write_text('{"event":"tick.done","ticks":1}\n')
    follower = LogFollower(log)
    with log.open("a") as file:
        file.write('{"event":"tick.done","ticks":2}\n')
    assert [event["ticks"] for _, event in follower.new()] == [2]
