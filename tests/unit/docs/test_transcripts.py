"""What a page shows of the command line is what the command line says.

A fence with ``file=NAME`` is a file of the reader's; one of text that begins with ``$ quarterjack`` is a command and its output.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from quarterjack.cli.app import run
from quarterjack.settings import Settings

from tests.support.doc_examples import beginning, connect
from tests.support.doc_pages import Page, all_pages

_FILE = re.compile(r"\w+ file=(\S+)")
_PROMPT = "$ quarterjack "
pages = [one for one in all_pages() if _PROMPT in one.text]


@pytest.mark.cloud
@pytest.mark.parametrize("one", pages, ids=lambda one: one.name)
def test_transcripts_are_what_the_commands_print(
    one: Page,
    local_settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connect(local_settings, monkeypatch)
    with beginning(tmp_path, monkeypatch):
        for token in one.tokens:
            info = _FILE.fullmatch(token.info.strip()) if token.type == "fence" else None
            if info:
                place = Path(info[1])
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(token.content, encoding="utf-8")
            elif token.type == "fence" and token.content.startswith(_PROMPT):
                command, _, shown = token.content.partition("\n")
                capsys.readouterr()
                run(shlex.split(command.removeprefix(_PROMPT)))
                out, err = capsys.readouterr()
                assert out == shown, err
