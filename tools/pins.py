"""constraints.txt, read: requirements with hashes for `pip install`, and a software bill of materials. The standard library alone.

    python -m tools.pins requirements EXTRA|GROUP|PACKAGE …    the pins of these, and of all that they need, with hashes
    python -m tools.pins sbom EXTRA …                          CycloneDX 1.6 as JSON; licences are read from what is installed

`uv pip compile` writes constraints.txt. Its "via" comments say which package needs which.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_SHORT = 60  # characters of a licence's name; longer is its text
_FIRST = re.compile(r"([A-Za-z0-9._-]+)==([^\s;\\]+)")
_NAME = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?")


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One package."""

    name: str  # normalised
    version: str
    text: str  # its lines, with its marker and hashes
    hashes: tuple[str, ...]  # SHA-256, hexadecimal, of its files
    via: frozenset[str]  # names of packages that need it


def pins(text: str) -> dict[str, Pin]:
    """The packages of a constraints file, by name."""
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        first = _FIRST.match(block)
        if first is None:
            continue
        lines = block.splitlines()
        via = " ".join(line.partition("#")[2].replace("via", " ", 1) for line in lines if line.lstrip().startswith("#"))
        name = normal(first[1])
        found[name] = Pin(
            name=name,
            version=first[2],
            text="\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#")),
            hashes=tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)),
            via=frozenset(normal(word) for word in via.split()),
        )
    return found


def normal(name: str) -> str:
    """The name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(wanted: Iterable[str], document: dict[str, Any]) -> set[str]:
    """The packages that pyproject.toml names for some extras and groups; another word is a package.

    The project's own dependencies belong to each extra, and all extras to a group, which is for work on the project itself.
    """
    project, groups, found = document["project"], document["dependency-groups"], set[str]()
    own: list[str] = project["dependencies"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    lines = list[str]()
    for word in wanted:
        if word in groups:
            lines += [*own, *groups[word], *chain.from_iterable(extras.values())]
        else:
            lines += [*own, *extras[word]] if word in extras else [word]
    while lines:
        match = _NAME.match(lines.pop())
        assert match is not None
        if normal(match[1]) == "quarterjack":
            lines += [line for extra in (match[2] or "").split(",") for line in extras[extra.strip()]]
        else:
            found.add(normal(match[1]))
    return found


def needed(names: Iterable[str], known: dict[str, Pin]) -> list[Pin]:
    """The pins of these packages and of all that they need, in order of name. Raises LookupError for one without a pin."""
    found = set(names)
    missing = found - set(known)
    if missing:
        raise LookupError(f"constraints.txt has no {', '.join(sorted(missing))}; run: make pins")
    while more := {pin.name for pin in known.values() if pin.via & found} - found:
        found |= more
    return [known[name] for name in sorted(found)]


def version() -> str:
    """That of this package, read without importing it: it may not be installed yet."""
    text = (ROOT / "shared" / "quarterjack" / "version.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^VERSION = "(.+)"$', text, re.MULTILINE)
    return str(found)


def sbom(found: Iterable[Pin], project: dict[str, Any]) -> dict[str, Any]:
    """A document of CycloneDX. Without a time and a serial number: the same input gives the same bytes."""
    own: dict[str, Any] = {"type": "library", "name": "quarterjack", "version": version(), "bom-ref": "quarterjack"}
    own["licenses"] = [{"expression": project["license"]}]
    listed = list(found)
    names = {pin.name for pin in listed}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [_component(pin) for pin in listed],
        "dependencies": [
            {"ref": _purl(pin), "dependsOn": sorted(_purl(other) for other in listed if pin.name in other.via & names)}
            for pin in listed
        ],
    }


def _component(pin: Pin) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "library", "name": pin.name, "version": pin.version, "purl": _purl(pin)}
    component |= {"bom-ref": _purl(pin), "licenses": list(_licences(pin.name))}
    files = [{"type": "distribution", "hashes": [{"alg": "SHA-256", "content": text}]} for text in pin.hashes]
    return component | {"externalReferences": [{**file, "url": _purl(pin)} for file in files]}


def _purl(pin: Pin) -> str:
    return f"pkg:pypi/{pin.name}@{pin.version}"


def _licences(name: str) -> Iterator[dict[str, Any]]:
    """What the installed package says: an expression, else its classifiers, else its short text; nothing if it is not installed."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return
    expression = " ".join(about.get_all("License-Expression") or ())
    if expression:
        yield {"expression": expression}
        return
    lines = [line for line in about.get_all("Classifier") or () if line.startswith("License ::")]
    words = [line.rpartition(" :: ")[2] for line in lines if not line.endswith("OSI Approved")]
    text = " ".join(about.get_all("License") or ()).strip()
    for word in words or ([text] if text and len(text) < _SHORT and "\n" not in text else []):
        yield {"license": {"name": word}}


def main(words: list[str]) -> None:
    """See the top."""
    act, *wanted = words
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = needed(direct(wanted, document), pins((ROOT / "constraints.txt").read_text(encoding="utf-8")))
    if act == "requirements":
        sys.stdout.writelines(f"{pin.text}\n" for pin in found)
    else:
        sys.stdout.write(json.dumps(sbom(found, document["project"]), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
