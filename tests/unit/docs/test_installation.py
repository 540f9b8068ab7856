"""Every text that tells how to install Quarterjack gives a form that works, from one constant."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from quarterjack import extras

from tests.support.doc_pages import page
from tests.support.tree import ROOT, files

_NAME = "quarterjack"
EXTRAS = frozenset(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
# An extra of the bare name, and pip with it: `quarterjack[cli]`, `pip install -U quarterjack`.
_BARE = re.compile(rf"(?<![\w./-]){_NAME}\[|pip install (?:[^'\n]*[ '\"])?{_NAME}(?![\w./:-])", re.IGNORECASE)
_WHEEL = re.compile(rf"['`\"]?([\w./-]*{_NAME}-[\w.]+-py3-none-any\.whl)(?:\[([a-z,]+)\])?")
_MAY_SAY_SO = {"pyproject.toml": "an extra names another", "tests/unit/docs/test_installation.py": "this test"}


def texts() -> Iterator[tuple[str, str]]:
    """The name and the content of every text of the tree but what others wrote."""
    for path in files():
        data = (ROOT / path).read_bytes()
        if str(path) not in _MAY_SAY_SO and b"\0" not in data:
            yield str(path), data.decode()


def bare(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if _BARE.search(line)]


def test_no_text_tells_to_install_the_bare_name() -> None:
    found = {name: lines for name, text in texts() if (lines := bare(text))}
    assert not found, f"take {extras.requirement('EXTRA')} in pages, quarterjack.extras.install_remedy in errors"


@pytest.mark.parametrize(
    "wrong",
    [
        "pip install 'quarterjack[cli]'",
        "pip install quarterjack",
        "uv pip install -U quarterjack",
        "`quarterjack[web]`",
    ],
)
def test_the_bare_name_would_be_found(wrong: str) -> None:
    assert bare(f"Type {wrong}, then go on")


def test_pages_and_recipes_name_the_source_of_the_constant() -> None:
    named = {
        (name, source, wanted) for name, text in texts() for source, wanted in _WHEEL.findall(text) if ".whl" in source
    }
    assert len(named) > 8
    wheel = extras.SOURCE.removeprefix("./")
    for name, source, wanted in named:
        assert source.removeprefix("build/").removeprefix("./") == wheel, f"{name}: {source}"
        assert not wanted or (source == extras.SOURCE and set(wanted.split(",")) <= EXTRAS), (
            f"{name}: {source}[{wanted}]"
        )


def test_a_remedy_works_from_the_wheel_file_and_from_a_checkout() -> None:
    assert extras.install_remedy("web", "cli") == (
        f"pip install '{extras.SOURCE}[web,cli]' (in a checkout: '.[web,cli]')"
    )


def test_the_page_lists_every_extra_of_the_package() -> None:
    text = page("docs/how-to/install.md").text.partition("## Extras")[2]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert listed == EXTRAS - {"dev"}


def test_each_extra_that_an_error_names_exists() -> None:
    sources = (text for name, text in texts() if name.startswith(("shared/", "infra/", "functions/")))
    named = {name for text in sources for name in re.findall(r"install_remedy\(['\"](\w+)", text)}
    assert named >= {"cli", "local", "web"}
    assert named <= EXTRAS
