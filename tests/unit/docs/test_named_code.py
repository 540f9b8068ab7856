"""The members, arguments and identifiers that a page names in backticks are in the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.doc_pages import ROOT, Page, all_pages

CODE = ("shared", "functions", "infra")
PLACES = (*CODE, "bench", "examples", "tests/support", "tools", ".ci", "docs/generators", "pyproject.toml", "Makefile")
INSTANCES = {
    "ctx": "Context",
    "harness": "Harness",
    "registry": "Registry",
    "scheduler": "Scheduler",
    "tenants": "Tenants",
}
FOREIGN = {
    "DynamoDB",
    "Duration",
    "Key",
    "LeaseRefused",
    "Runtime",
    "Validations",
}  # of AWS, the CDK and metrics; no classes of ours
NO_CODE = {  # names of others, of what was removed, and of what an ADR decides against or prepares
    "Retry(max=)",
    "check_jobs",
    "dependency_overrides",
    "idle_in_transaction_session_timeout",
    "job_version",
    "next_fire_at",
    "quarterjack_run_duration_seconds",
    "quarterjack_started_total",
    "warm_throughput",
}
_CLASS = re.compile(r"^class (\w+)(?:\[.*?\])?(?:\(([^)]*)\))?:((?:\n(?: [^\n]*)?)*)", re.MULTILINE)
_MEMBER = re.compile(r"(?<![\w./-])(_?[A-Z]\w*|ctx|harness|registry|scheduler|tenants)\.([a-z_]\w*)")
_CALL = re.compile(r"(?<!\w)([A-Z]\w*)\(([^()]*=[^()]*)\)")
_IDENTIFIER = re.compile(r"_[a-z]+(?:_[a-z]+)*|[a-z]+(?:_[a-z]+)+")


def _texts(places: tuple[str, ...]) -> Iterator[str]:
    for place in map(ROOT.joinpath, places):
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.suffix in {".py", ".toml", ".json", ".html", ".js", ".yaml", ""} and path.is_file():
                yield path.read_text(encoding="utf-8")


@cache
def _classes() -> dict[str, tuple[str, str]]:
    """The bases and the body of each class of the code."""
    return {name: (bases, body) for text in _texts(CODE) for name, bases, body in _CLASS.findall(text)}


@cache
def _names(owner: str) -> frozenset[str]:
    """What a class and those that it extends define, and what their methods take."""
    bases, body = _classes().get(owner, ("", ""))
    own = re.findall(r"def (\w+)|self\.(\w+)|\b(\w+)\s*[:=]", body)
    more = (_names(base) for base in re.findall(r"\w+", bases) if base != owner)
    return frozenset({name for found in own for name in found if name}.union(*more))


@cache
def _identifiers() -> frozenset[str]:
    return frozenset(word for text in _texts(PLACES) for word in re.findall(r"[a-z_]+", text) if "_" in word)


def unknown(one: Page) -> set[str]:
    """What a page names in backticks that the code does not have."""
    named = [member for code in one.prose_code for member in _MEMBER.findall(code)]
    given = [
        (owner, name)
        for code in one.prose_code
        for owner, rest in _CALL.findall(code)
        for name in re.findall(r"\b(\w+)=", rest)
    ]
    there = {word for token in one.tokens if token.type == "fence" for word in _IDENTIFIER.findall(token.content)}
    words = {code for code in one.prose_code if _IDENTIFIER.fullmatch(code)}
    found = {
        *(
            f"{name}.{member}"
            for name, member in named
            if name not in FOREIGN and member not in _names(INSTANCES.get(name, name))
        ),
        *(f"{owner}({name}=)" for owner, name in given if owner in _classes() and name not in _names(owner)),
        *(words - _identifiers() - there),
    }
    return found - NO_CODE


@pytest.mark.parametrize("one", all_pages(), ids=lambda one: one.name)
def test_what_a_page_names_is_in_the_code(one: Page) -> None:
    assert unknown(one) == set()


def test_what_is_not_in_the_code_is_found(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "`Scheduler.submit_it(1)` `ctx.sing` `Quarterjack(jobbs=1, jobs=2)` `_no_function` `Scheduler.submit` `Context.step`"
    )
    assert unknown(Page(path)) == {"Scheduler.submit_it", "ctx.sing", "Quarterjack(jobbs=)", "_no_function"}
