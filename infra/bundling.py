"""Bundles for the functions, made by pip from wheels for the target platform, without Docker and without a compiler.

There are two: one for ticker, undertaker and auditor, and one for the worker, with the user's jobs in it.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, cast

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from minutehand.errors import Misconfigured
from packaging.requirements import Requirement

from .jobs import JobPackage

RUNTIME = lambda_.Runtime.PYTHON_3_14  # the newest that Lambda offers; a test compares it with what aws-cdk-lib knows
HANDLERS = Path(__file__).parents[1] / "functions"  # beside this package, in the checkout as well as installed
_PINS = Path(__file__).parents[1] / "constraints.txt"  # in the checkout only
_LEFT_OUT = ("__pycache__", "*.pyc", ".*", "requirements.txt")
_CODE = "/var/task"  # the folder of a bundle on Lambda, as tracebacks show it
_NOT_IN_LAMBDA = ("cli", "local", "testing", "infra", "functions")  # folders of the package that no function imports

# Amazon Linux 2023 has glibc 2.34; pip needs the name of every tag that it may use.
_GLIBC = (34, 31, 28, 27, 26, 24, 17)
_PLATFORMS = (*(f"manylinux_2_{minor}_aarch64" for minor in _GLIBC), "manylinux2014_aarch64")


@dataclass(frozen=True, kw_only=True)
class BundleTarget:
    """The platform for which pip selects wheels."""

    name: str
    arguments: tuple[str, ...]  # of `pip install`
    complete: bool = True  # with our own dependencies; False: the functions' interpreter has them
    python: str | None = (
        None  # an interpreter of its version, which compiles the bundle; None: the bundle is source only
    )


def _interpreter(version: str) -> str | None:
    """An interpreter of that version on this machine."""
    return sys.executable if version == f"{sys.version_info[0]}.{sys.version_info[1]}" else which(f"python{version}")


_VERSION = RUNTIME.name.removeprefix("python")
AWS = BundleTarget(
    name="aws",
    python=_interpreter(_VERSION),
    arguments=(
        *(argument for platform in _PLATFORMS for argument in ("--platform", platform)),
        *("--implementation", "cp"),
        *("--python-version", _VERSION),
        *("--only-binary", ":all:"),
    ),
)
# The interpreter that runs this, with its packages, for a local cloud: that extracts a bundle for each process of a function, and
# 50 MB of dependencies take it most of a minute in all.
HERE = BundleTarget(name="here", arguments=(), complete=False)


def bundle(target: BundleTarget, jobs: JobPackage | None = None) -> lambda_.Code:
    """The code of the functions; with ``jobs``, of the worker. The CDK makes it at synthesis unless it exists."""
    return lambda_.Code.from_asset(
        str(HANDLERS),
        asset_hash_type=AssetHashType.CUSTOM,
        asset_hash=fingerprint(target, jobs),
        bundling=BundlingOptions(
            image=DockerImage.from_registry("docker-is-never-asked"),
            local=cast(ILocalBundling, _Bundling(target, jobs)),
        ),
    )


def build(directory: Path, target: BundleTarget, jobs: JobPackage | None = None) -> None:
    """Fill ``directory`` with all imports of the functions: dependencies, this package, the handlers, the jobs."""
    requirements = jobs.requirements if jobs else None
    if target.complete or requirements is not None:
        shutil.copytree(_dependencies(target, requirements, directory.parent), directory, dirs_exist_ok=True)
    else:
        _check_installed()
    _copy(_package(), directory / "minutehand", also=_NOT_IN_LAMBDA)
    _copy(HANDLERS, directory / "functions")
    if jobs is not None:
        place = directory / jobs.root.name
        if place.exists() or place.with_suffix("").exists():
            raise Misconfigured(f"jobs={str(jobs.root)!r}: a dependency has the same name; rename the package")
        if jobs.root.is_dir():
            _copy(jobs.root, place)
        else:
            shutil.copy2(jobs.root, place)
    if target.python is not None:
        _compile(directory, target.python)


def _compile(directory: Path, python: str) -> None:
    """Add bytecode. A function cannot write beside its code, so that without it each cold start compiles every import.

    Python does not compare it with the sources, whose dates the CDK changes. Files that do not compile stay as source.
    """
    options = ("-q", "--invalidation-mode", "unchecked-hash", "-s", str(directory), "-p", _CODE)
    subprocess.run((python, "-m", "compileall", *options, str(directory)), capture_output=True, check=False)


@jsii.implements(ILocalBundling)
class _Bundling:
    """Called by the CDK instead of Docker."""

    def __init__(self, target: BundleTarget, jobs: JobPackage | None) -> None:
        self._target, self._jobs = target, jobs

    def try_bundle(self, output_dir: str, *_: Any, **__: Any) -> bool:  # the options of the image are not used
        build(Path(output_dir), self._target, self._jobs)
        return True


def _dependencies(target: BundleTarget, requirements: Path | None, beside: Path) -> Path:
    """A folder with the dependencies; it stays in the output of the synthesis, for the other bundle and the next synthesis."""
    wanted = beside / f"dependencies.{_digest(_inputs(target, requirements))}"
    if not wanted.exists():
        with tempfile.TemporaryDirectory(dir=beside, prefix="dependencies.") as unfinished:
            _install(Path(unfinished, "packages"), target, requirements)
            Path(unfinished, "packages").rename(wanted)
    return wanted


def _install(directory: Path, target: BundleTarget, requirements: Path | None) -> None:
    listed = () if requirements is None else ("--requirement", str(requirements))
    pins = ("--constraint", str(_PINS)) if _PINS.exists() else ()
    own = _own_requirements() if target.complete else ()
    command = (
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
        *("--target", str(directory), *target.arguments, *pins, *own, *listed),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Misconfigured(
            f"pip could not install what the functions need for {target.name} (requirements={str(requirements)!r}):\n{done.stderr.strip()}"
        )


def _check_installed() -> None:
    """Raise Misconfigured if this interpreter lacks what the functions import."""
    for requirement in map(Requirement, _own_requirements()):
        try:
            distribution(requirement.name)
        except PackageNotFoundError:
            remedy = "run: pip install 'minutehand[functions]'"
            raise Misconfigured(
                f"target=HERE: {requirement.name} is not installed in this interpreter; {remedy}"
            ) from None


def _own_requirements() -> tuple[str, ...]:
    """The requirements of the package and of its extra ``functions``, from its metadata."""
    listed = [Requirement(line) for line in requires("minutehand") or ()]
    wanted = [r for r in listed if r.marker is None or r.marker.evaluate({"extra": "functions"})]
    for requirement in wanted:
        requirement.marker = None
    return tuple(str(requirement) for requirement in wanted)


def _package() -> Path:
    found = find_spec("minutehand")
    if found is None or not found.submodule_search_locations:
        raise Misconfigured("the package minutehand cannot be found; install it where the CDK app runs")
    return Path(next(iter(found.submodule_search_locations)))


def _copy(source: Path, destination: Path, also: Iterable[str] = ()) -> None:
    """Copy a folder's content; ``also`` are names of top-level folders in it to leave out."""
    general = shutil.ignore_patterns(*_LEFT_OUT)

    def ignore(folder: str, names: list[str]) -> set[str]:
        return general(folder, names) | (set(also) & set(names) if Path(folder) == source else set())

    shutil.copytree(source, destination, ignore=ignore, dirs_exist_ok=True)


def fingerprint(target: BundleTarget, jobs: JobPackage | None) -> str:
    """A digest of all inputs of the bundle. Versions that the requirements leave open are not part of it."""
    return _digest(
        (
            *_inputs(target, jobs.requirements if jobs else None),
            *_contents(_package(), _NOT_IN_LAMBDA),
            *_contents(HANDLERS),
            *(_contents(jobs.root) if jobs else ()),
        )
    )


def _inputs(target: BundleTarget, requirements: Path | None) -> tuple[bytes, ...]:
    files = [place for place in (_PINS, requirements) if place is not None and place.exists()]
    texts = (target.name, *target.arguments, *_own_requirements(), sys.version if target is HERE else "")
    compiled = ("compiled",) if target.python is not None else ()
    complete = ("complete",) if target.complete else ()
    return (*(text.encode() for text in (*texts, *compiled, *complete)), *(place.read_bytes() for place in files))


def _contents(root: Path, also: Iterable[str] = ()) -> Iterator[bytes]:
    if root.is_file():
        yield root.name.encode()
        yield root.read_bytes()
        return
    for place in sorted(root.rglob("*")):
        parts = place.relative_to(root).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if place.is_file() and not hidden and place.suffix != ".pyc" and parts[0] not in also:
            yield "/".join((root.name, *parts)).encode()
            yield place.read_bytes()


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()
