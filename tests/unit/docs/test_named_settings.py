"""Every variable that a text, a comment or a page names is one that the code reads or sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from quarterjack.errors import Misconfigured
from quarterjack.settings import Settings, from_environment
from quarterjack.sqs.stripes import Stripes

from tests.support.doc_pages import ROOT

SETTINGS = {f"QUARTERJACK_{field.name.upper()}" for field in fields(Settings)} - {
    f"QUARTERJACK_{name}" for name in ("ENDPOINT", "ENDPOINTS", "REGION")
}
OTHERS = {  # no fields of Settings
    "QUARTERJACK_CONSOLE",
    "QUARTERJACK_LOAD_BALANCER",
    "QUARTERJACK_OIDC_CLIENT",
    "QUARTERJACK_OIDC_ISSUER",
    "QUARTERJACK_RUN_ID",
    "QUARTERJACK_IDEMPOTENCY_KEY",
    "QUARTERJACK_SCHEDULED_AT",
    "QUARTERJACK_ATTEMPT",
    "QUARTERJACK_PARENT_PIPE",
    "_QUARTERJACK_COMPLETE",
    "QUARTERJACK_TEST_BROWSER",
    "QUARTERJACK_TEST_ENDPOINT",
}
NAME = re.compile(r"_?QUARTERJACK(?:[A-Z0-9_])*")
PREFIXES = {"QUARTERJACK_"}  # of what begins so
CODE = ("shared", "functions", "infra")
PLACES = (*CODE, "docs", "bench", "examples", "tools", "README.md", "SECURITY.md", "CHANGELOG.md", "Makefile", ".ci")
READABLE = {".py", ".md", ".json", ".toml", ".html", ".yaml", ".sh", ".txt", ""}


def files(places: tuple[str, ...] = PLACES) -> Iterator[Path]:
    for place in places:
        found = ROOT / place
        for path in [found] if found.is_file() else sorted(found.rglob("*")):
            if path.is_file() and path.suffix in READABLE and "__pycache__" not in path.parts:
                yield path


def unknown(text: str) -> set[str]:
    """The names of variables in a text that nothing reads or sets."""
    return set(NAME.findall(text)) - SETTINGS - OTHERS - PREFIXES


def test_every_variable_that_is_named_exists() -> None:
    found = {path.relative_to(ROOT).as_posix(): unknown(path.read_text(errors="replace")) for path in files()}
    assert len(found) > 900, "it looks at what there is"
    assert {path: names for path, names in found.items() if names} == {}
    assert unknown("QUARTERJACKLOG_GROUPS=1 QUARTERJACK_LOG_GROUPS QUARTERJACK_LOGGROUPS") == {
        "QUARTERJACKLOG_GROUPS",
        "QUARTERJACK_LOGGROUPS",
    }


def test_a_variable_that_is_no_field_of_the_settings_is_in_the_code() -> None:
    code = "".join(
        path.read_text() for path in files((*CODE, "tests/support", "tests/conftest.py")) if path.suffix == ".py"
    )
    assert {name for name in OTHERS if f'"{name}"' not in code} == set()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LOG_GROUPS", "/ecs/a, /ecs/b"),
        ("STRIPES", "default=many"),
        ("PRIORITIES", "a b"),
        ("AWS_CLIENT", "curl"),
        ("BUCKET", "a/b"),
        ("REQUESTS", "99"),
    ],
)
def test_an_error_about_a_setting_names_its_variable(name: str, text: str) -> None:
    def read() -> None:
        found = from_environment({f"QUARTERJACK_{name}": text})
        Stripes.parse(found.stripes, found.priorities)

    with pytest.raises(Misconfigured, match=rf"^QUARTERJACK_{name}='?{text[:3]}"):
        read()
