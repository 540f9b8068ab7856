"""Help as one asks for it: ``-h`` and ``--help`` of every command in 80 columns, groups of commands, the version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quarterjack.cli.app import run, whole
from quarterjack.cli.commands import COMMANDS
from quarterjack.version import DOCUMENTATION, VERSION

ROOT = Path(__file__).parents[3]


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from paths(child, (*path, name))


@pytest.fixture(autouse=True)
def _eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def names_in(path: tuple[str, ...]) -> set[str]:
    """The declared names of a command's options, and of a group's commands."""
    command: Any = whole()
    for word in path:
        command = command.commands[word]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    return {name for one in options for name in (*one.opts, *one.secondary_opts)} | set(
        getattr(command, "commands", {})
    )


@pytest.mark.parametrize("path", [*paths(whole())], ids=lambda path: " ".join(path) or "root")
def test_every_command_and_group_answers_both(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for option in ("-h", "--help"):
        assert run([*path, option]) == 0
        said.append(capsys.readouterr().out)
    short, long = said
    assert short == long
    assert "Usage: quarterjack" in short
    assert re.search(r"--help +-h ", short)
    assert max(map(len, short.splitlines())) <= 80
    assert names_in(path) <= set(short.split()), "no name is cut"


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_root_ends_with_where_to_begin(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(words)
    said = "".join(capsys.readouterr())
    end = " ".join(said.rpartition("╯")[2].split())
    assert end.startswith("Start with `quarterjack local`")
    assert end.endswith(f"Documentation: {DOCUMENTATION}.")
    for page in re.findall(r"docs/\S+\.md", DOCUMENTATION):
        assert (ROOT / page).exists()


def test_the_root_shows_its_commands_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    shown = capsys.readouterr().out
    panels = re.findall(r"^╭─ (\w+) ─", shown, re.MULTILINE)
    assert panels == ["Options", "Schedules", "Runs", "Installation", "Processes"]
    below = dict(zip(panels, re.split(r"^╭─ .*$", shown, flags=re.MULTILINE)[1:], strict=True))
    for name, entry in COMMANDS.items():
        assert re.search(rf"^│ {name} ", below[entry.panel], re.MULTILINE), name


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"quarterjack {VERSION}\n"


def test_a_wrong_option_names_the_way_to_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedules", "get", "--no-such"]) == 2
    assert "quarterjack schedules get --help" in capsys.readouterr().err
