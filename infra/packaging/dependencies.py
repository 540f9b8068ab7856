"""What the functions import from other packages: the platform for which pip selects wheels, and a folder with them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

from aws_cdk import aws_lambda as lambda_
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from quarterjack.errors import Misconfigured
from quarterjack.extras import install_remedy
from quarterjack.values import replace

RUNTIME = lambda_.Runtime.PYTHON_3_14  # the newest that Lambda offers; a test compares it with what aws-cdk-lib knows
_PINS = Path(__file__).parents[2] / "constraints.txt"  # in the checkout; a wheel has it among its metadata
_HASH = re.compile(r"\s*\\\n\s*--hash=\S+|^\s*#.*\n", re.MULTILINE)
_NAMED = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)  # of a line of requirements
_PIP_NOTES = (
    "RECORD",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
)  # with paths and digests of scripts of this machine
API = "api"  # the extra of the HTTP API
OIDC = "oidc"  # that with the word of a load balancer

# Amazon Linux 2023 has glibc 2.34; pip needs the name of every tag that it may use.
_GLIBC = (34, 31, 28, 27, 26, 24, 17)
_PLATFORMS = (*(f"manylinux_2_{minor}_aarch64" for minor in _GLIBC), "manylinux2014_aarch64")


@dataclass(frozen=True, kw_only=True)
class BundleTarget:
    """The platform for which pip selects wheels."""

    name: str
    arguments: tuple[str, ...]  # of `pip install`
    complete: bool = True  # with our own dependencies; False: the functions' interpreter has them
    extras: tuple[str, ...] = ("functions",)  # of this package, whose requirements are in it
    compiled_by: str | None = None  # version of the interpreter that adds bytecode; None: the bundle is source only


_VERSION = RUNTIME.name.removeprefix("python")
AWS = BundleTarget(
    name="aws",
    arguments=(
        *(argument for platform in _PLATFORMS for argument in ("--platform", platform)),
        *("--implementation", "cp"),
        *("--python-version", _VERSION),
        *("--only-binary", ":all:"),
    ),
)
AWS_COMPILED = replace(
    AWS, compiled_by=_VERSION
)  # bytecode differs between patch releases of Python, and so between machines

# The interpreter that runs this, with its packages, for a local cloud: that extracts a bundle for each process of a function, and
# 50 MB of dependencies take it most of a minute in all.
HERE = BundleTarget(name="here", arguments=(), complete=False)


def for_api(target: BundleTarget, *, oidc: bool = False) -> BundleTarget:
    """The same platform, with what the HTTP API needs, and with ``oidc`` what checks a load balancer's signature."""
    return replace(target, extras=(API, OIDC) if oidc else (API,))


def dependencies_of(target: BundleTarget, requirements: Path | None, beside: Path) -> Path:
    """A folder with the dependencies; it stays in the output of the synthesis, for the other bundle and the next synthesis."""
    wanted = beside / f"dependencies.{digest(inputs_of(target, requirements))}"
    if not wanted.exists():
        with tempfile.TemporaryDirectory(dir=beside, prefix="dependencies.") as unfinished:
            _install(Path(unfinished, "packages"), target, requirements)
            Path(unfinished, "packages").rename(wanted)
    return wanted


def _install(directory: Path, target: BundleTarget, requirements: Path | None) -> None:
    listed = () if requirements is None else ("--requirement", str(requirements))
    own = _own_requirements(target.extras) if target.complete else ()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="pins.", suffix=".txt") as pins:
        pins.write(_pins(requirements))
        pins.flush()
        command = (
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
            *("--target", str(directory), *target.arguments, "--constraint", pins.name, *own, *listed),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Misconfigured(
            f"pip could not install what the functions need for {target.name} (requirements={str(requirements)!r}):\n{done.stderr.strip()}"
        )
    _forget_machine(directory)


def _forget_machine(directory: Path) -> None:
    """Remove what pip writes for this machine: scripts that start its interpreter, and where wheels came from."""
    scripts = (place for place in directory.glob("bin/*") if sys.executable.encode() in place.read_bytes())
    notes = (place for name in _PIP_NOTES for place in directory.glob(f"*.dist-info/{name}"))
    for place in (*scripts, *notes):
        place.unlink()


def _pins(requirements: Path | None) -> str:
    """The versions that this release was tested with, but of packages that the user's requirements name.

    Without hashes, since the user's requirements have none and pip would ask for theirs.
    """
    if _PINS.exists():
        text = _PINS.read_text(encoding="utf-8")
    else:
        text = distribution("quarterjack").read_text("extra_metadata/constraints.txt") or ""
    given = "" if requirements is None else requirements.read_text(encoding="utf-8")
    named = {canonicalize_name(found[1]) for found in _NAMED.finditer(given)}
    lines = _HASH.sub("", text).splitlines(keepends=True)
    return "".join(line for line in lines if canonicalize_name(line.partition("==")[0]) not in named)


def check_installed(extras: tuple[str, ...]) -> None:
    """Raise Misconfigured if this interpreter lacks what the functions import."""
    for requirement in map(Requirement, _own_requirements(extras)):
        try:
            distribution(requirement.name)
        except PackageNotFoundError:
            remedy = f"run: {install_remedy(*extras)}"
            raise Misconfigured(
                f"target=HERE: {requirement.name} is not installed in this interpreter; {remedy}"
            ) from None


def _own_requirements(extras: tuple[str, ...]) -> tuple[str, ...]:
    """The requirements of the package and of some of its extras, from its metadata. An extra may name another."""
    listed = [Requirement(line) for line in requires("quarterjack") or ()]
    found: dict[str, None] = {}  # in order
    waiting = ["", *extras]
    for extra in waiting:
        for requirement in listed:
            if _is_of(requirement, extra):
                if canonicalize_name(requirement.name) == "quarterjack":
                    waiting += requirement.extras - set(waiting)
                else:
                    plain = Requirement(str(requirement))
                    plain.marker = None
                    found[str(plain)] = None
    return tuple(found)


def _is_of(requirement: Requirement, extra: str) -> bool:
    """Whether an extra has a requirement; the extra "" is the package itself."""
    if requirement.marker is None:
        return not extra
    return requirement.marker.evaluate({"extra": extra})


def inputs_of(target: BundleTarget, requirements: Path | None) -> tuple[bytes, ...]:
    files = [place for place in (requirements,) if place is not None and place.exists()]
    own = (*_own_requirements(target.extras), _pins(requirements))
    texts = (target.name, *target.arguments, *own, sys.version if target is HERE else "")
    compiled = ("compiled",) if target.compiled_by is not None else ()
    complete = ("complete",) if target.complete else ()
    return (*(text.encode() for text in (*texts, *compiled, *complete)), *(place.read_bytes() for place in files))


def digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()
