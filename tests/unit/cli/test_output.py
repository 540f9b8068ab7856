"""Text for people: what a payload, a result, an error or a log line can do to the operator's terminal."""

from __future__ import annotations

import errno
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from quarterjack.apply.document import DeclarationFile, read, write
from quarterjack.cli.app import run
from quarterjack.cli.exits import ExitCode
from quarterjack.cli.runs.logs import _print_line
from quarterjack.cli.shell import Shell, console, print_json, text_of
from quarterjack.domain.redaction import USUAL
from quarterjack.errors import QuarterjackError
from quarterjack.ports.run_logs import LogLineRow
from quarterjack.sdk.history.views import line_view
from quarterjack.settings import Settings
from quarterjack.terminal import is_printable

# Renames the window, clears the line, C1's CSI, an override of direction, an isolate, a line of its own in some viewers.
ATTACKS = ("\x1b]0;title\x07", "\r\x1b[2K", "\x9b31m", "a\u202eb", "\u2066c", "\u2028d", "\x7f", "\u200ff")


@dataclass(frozen=True)
class Row:
    error: str


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    console.cache_clear()  # it keeps the stream of the test before
    return Shell(Settings(), as_json=False)


def test_control_characters_are_shown_and_not_sent() -> None:
    assert text_of("\x1b[31mred\x1b]0;title\x07\x9b") == "\\x1b[31mred\\x1b]0;title\\x07\\x9b"
    assert text_of("two\nlines\tand a tab, ä") == "two\nlines\tand a tab, ä"
    assert text_of("abc\u202etxt.exe") == "abc\\u202etxt.exe"


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_is_shown_reaches_the_terminal_raw(
    shell: Shell, capsys: pytest.CaptureFixture[str], attack: str
) -> None:
    row = Row(attack)
    shell.show(row)
    shell.list([row], ["error"])
    shell.say(attack)
    shell.remark(attack)
    shell.warn(attack)
    shell.answer({}, attack)
    shown = capsys.readouterr()
    assert is_printable(shown.out), shown.out
    assert is_printable(shown.err), shown.err


@pytest.mark.parametrize("attack", ATTACKS)
def test_json_says_the_same_in_escapes(attack: str) -> None:
    out = io.StringIO()
    print_json({attack: [attack, "ä\n"]}, to=out)
    assert is_printable(out.getvalue())
    assert json.loads(out.getvalue()) == {attack: [attack, "ä\n"]}
    assert is_printable(text_of({attack: attack}))


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("as_json", [False, True])
def test_errors_and_wrong_options_are_shown_in_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], attack: str, *, as_json: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise QuarterjackError(f"AWS says: {attack}")

    words = ["--json"] if as_json else []
    assert run([*words, f"--{attack}"]) == 2
    monkeypatch.setattr("quarterjack.cli.app.app", refuse)
    assert run(words) == 1
    shown = capsys.readouterr()
    assert is_printable(shown.err), shown.err
    assert not shown.out


def test_a_line_of_text_cannot_pass_for_a_second_one(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.list([Row("boom\n12:00:00  SUCCEEDED  acme/other#1")], ["error"])
    assert len(capsys.readouterr().out.splitlines()) == 2  # with the heading


@pytest.mark.parametrize("attack", ATTACKS)
def test_log_lines_of_a_run(shell: Shell, capsys: pytest.CaptureFixture[str], attack: str) -> None:
    record = {
        "run_id": "acme/a#1",
        "event": f"x{attack}",
        "line": f"y{attack}\nz",
        "level": "INFO",
        "traceback": attack,
    }
    row = LogLineRow(at=0, source="worker", fields=record)
    _print_line(shell, line_view(row, USUAL, None))
    assert is_printable(capsys.readouterr().out)


def test_an_exported_file_is_read_in_the_order_in_which_it_is_written() -> None:
    words = {"nightly": {"job": "a", "expression": "0 9 * * *", "description": "pay\u202etxt\u2066\x9b ä"}}
    text = write([DeclarationFile(declarations=(), managed_by=None, words=words)])
    assert is_printable(text)
    (document,) = read(text, "a file")
    assert document.declarations[0].description == "pay\u202etxt\u2066\x9b ä"


class FullDisk(io.StringIO):
    def write(self, text: str, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_output_without_room_is_an_error_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tab = tmp_path / "tab"
    tab.write_text("0 5 * * * x\n")
    console.cache_clear()
    monkeypatch.setattr("sys.stdout", FullDisk())
    try:
        assert run(["import", "crontab", str(tab), "--dry-run"]) == ExitCode.MISCONFIGURED
    finally:
        console.cache_clear()
    told = capsys.readouterr().err
    assert told == "error: the output cannot be written (No space left on device); make room, or send it elsewhere\n"
