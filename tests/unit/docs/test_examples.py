"""Every Python example of the documentation runs, page by page, as a reader would type it in.

A block that begins with ``# name.py`` is a file: it is written into the working directory and imported from there.
"""

from __future__ import annotations

import doctest
import importlib
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from quarterjack import jobs as jobs_module
from quarterjack.daemon.roles import worker_process
from quarterjack.local.cloud import LocalCloud
from quarterjack.settings import Settings
from quarterjack.testing.cloud import fresh_settings
from sybil import Example
from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from tests.support.doc_examples import beginning, connect
from tests.support.doc_pages import ROOT, Page, all_pages, page
from tests.support.doc_programs import PROGRAMS
from tests.support.stacks import NO_BUNDLING

GENERATED = "docs/reference/api.md"  # its examples are those of the docstrings, which run below
_FILE = re.compile(r"# (\S+)\.py\n")
_PACKAGE = ROOT / "shared" / "quarterjack"


class Typed(PythonEvaluator):
    """Runs a block in the page's namespace; a file is imported, and its public names come with it."""

    def __call__(self, example: Example) -> None:
        source = example.parsed
        named = _FILE.match(source)
        if named is None:
            super().__call__(example)
            return
        place = Path(f"{named[1]}.py")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        module = importlib.import_module(named[1].replace("/", "."))
        example.namespace.update({name: value for name, value in vars(module).items() if not name.startswith("_")})


def examples(one: Page) -> list[Example]:
    return list(Document.parse(str(one.path), CodeBlockParser("python", Typed()), SkipParser()).examples())


@pytest.fixture(scope="module")
def working(local_cloud: LocalCloud) -> Iterator[Settings]:
    """An installation with a worker that knows what the page has registered."""
    settings, stop = fresh_settings(local_cloud), threading.Event()
    process = worker_process(settings, jobs_module.default_registry, concurrency=2)
    worker = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10})
    worker.start()
    yield settings
    stop.set()
    worker.join()


def for_the_cdk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with jobs in it, the construct under its published name, and no pip at synthesis.

    Node runs since ``aws_cdk`` was imported: it does not see the environment change, so the app is told.
    """
    shutil.copytree(ROOT / "tests" / "infra" / "acme", place / "acme")
    monkeypatch.setitem(sys.modules, "quarterjack.infra", importlib.import_module("infra"))
    cdk = importlib.import_module("aws_cdk")
    monkeypatch.setattr(cdk, "App", partial(cdk.App, context=NO_BUNDLING, outdir=str(place / "cdk.out")))


ELSEWHERE = (
    GENERATED,
    "README.md",
    *PROGRAMS,
    "docs/how-to/inbox.md",
)  # whole programs run in tests/acceptance/test_web_frameworks.py
with_python = [one for one in all_pages() if one.name not in ELSEWHERE and examples(one)]


@pytest.mark.parametrize("one", with_python, ids=lambda one: one.name)
def test_the_examples_of_a_page_run(
    one: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "Scheduler(" in one.text:
        where = "working" if "wait_for(" in one.text else "local_settings"
        connect(request.getfixturevalue(where), monkeypatch)
    if "aws_cdk" in one.text:
        for_the_cdk(tmp_path, monkeypatch)
    with beginning(tmp_path, monkeypatch):
        for example in examples(one):
            example.evaluate()


def test_the_first_example_does_what_the_readme_says(
    working: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(working, monkeypatch)
    with beginning(tmp_path, monkeypatch):
        job, use = examples(page("README.md"))
        job.evaluate()
        use.evaluate()
        first, result, end = capsys.readouterr().out.splitlines()
        assert "09:00:00" in first
        assert result.startswith("Grace, ")
        assert end.startswith("SUCCEEDED 0:00:0")
        exec(str(use.parsed), {})  # an example of the page is evaluated once
        assert capsys.readouterr().out.splitlines()[1:] == [result, end], "it may be run again"


documented = sorted(path for path in _PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", documented, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_the_examples_in_docstrings_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module.default_registry, "_jobs", {})
    name = ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried
    assert not failed
