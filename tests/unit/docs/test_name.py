"""The name that the project had before it was Quarterjack stands in one line of the changelog and nowhere else."""

from __future__ import annotations

import re

import pytest

from tests.support.tree import ROOT, files

_OLD = ("minute", "hand")  # in two words: this file is searched as well
_NAME = re.compile(r"[\s_./-]?".join(_OLD), re.IGNORECASE)
_SHORT = re.compile(rb"(?<![A-Za-z0-9+/=])(?:mh[ak]?[_-]|M[H]_|mh[{])")  # its abbreviation: keys, variables, made names


def found() -> list[tuple[str, str]]:
    """The files and lines with the name, paths included; of files that are no text, the whole file."""
    places = [(str(path), "its path") for path in files() if _NAME.search(str(path))]
    for path in files():
        data = (ROOT / path).read_bytes()
        if b"\0" in data:
            places += [(str(path), "its bytes")] if _NAME.search(data.decode("latin-1")) else []
        else:
            places += [(str(path), line) for line in data.decode().splitlines() if _NAME.search(line)]
    return places


def test_the_old_name_stands_in_one_line_of_the_changelog() -> None:
    ((path, line),) = found()
    assert path == "CHANGELOG.md"
    assert line.startswith("- The name is Quarterjack")


def test_no_key_and_no_variable_begins_with_its_abbreviation() -> None:
    texts = ((path, (ROOT / path).read_bytes()) for path in files())
    wrong = {
        str(path): short.findall(data) for path, data in texts if b"\0" not in data and (short := _SHORT).search(data)
    }
    assert wrong == {}


@pytest.mark.parametrize("join", ["", "_", "-", " ", ".", "/"])
@pytest.mark.parametrize("form", [str.lower, str.upper, str.title])
def test_it_would_be_found_in_any_form(join: str, form: type[str]) -> None:
    assert _NAME.search("a" + form(join.join(_OLD)) + "b")
    assert not _NAME.search(f"{_OLD[0]} of the {_OLD[1]}")
