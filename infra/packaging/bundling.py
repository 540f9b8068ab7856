"""Bundles for the functions, made by pip from wheels for the target platform, without Docker and without a compiler.

There are three: one for ticker, undertaker and auditor, one for the worker, with the user's jobs in it, and one for the HTTP API, if it
is wanted. A bundle has the same bytes on every machine: no bytecode unless asked for, no path of the machine, and an archive of our own
making.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, cast

import jsii
from aws_cdk import AssetHashType, BundlingOptions, BundlingOutput, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from quarterjack.errors import Misconfigured
from quarterjack.extras import install_remedy

from .jobs import JobPackage

RUNTIME = lambda_.Runtime.PYTHON_3_14  # the newest that Lambda offers; a test compares it with what aws-cdk-lib knows
HANDLERS = Path(__file__).parents[2] / "functions"  # beside this package, in the checkout as well as installed
_PINS = Path(__file__).parents[2] / "constraints.txt"  # in the checkout; a wheel has it among its metadata
_HASH = re.compile(r"\s*\\\n\s*--hash=\S+|^\s*#.*\n", re.MULTILINE)
_NAMED = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)  # of a line of requirements
_LEFT_OUT = ("__pycache__", "*.pyc", ".*", "requirements.txt")
_PIP_NOTES = (
    "RECORD",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
)  # with paths and digests of scripts of this machine
_PLAIN, _EXECUTABLE = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755
_UNIX = 3  # the system that an archive's modes are of
_CODE = "/var/task"  # the folder of a bundle on Lambda, as tracebacks show it
API = "api"  # the extra of the HTTP API
OIDC = "oidc"  # that with the word of a load balancer
_SERVICES = ("dynamodb", "logs", "s3", "sqs", "ssm", "sts")  # that the API asks; no code of users runs in it
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


def bundle(target: BundleTarget, jobs: JobPackage | None = None) -> lambda_.Code:
    """The code of the functions; with ``jobs``, of the worker. The CDK makes it at synthesis unless it exists."""
    return lambda_.Code.from_asset(
        str(HANDLERS),
        asset_hash_type=AssetHashType.CUSTOM,
        asset_hash=fingerprint(target, jobs),
        bundling=BundlingOptions(
            image=DockerImage.from_registry("docker-is-never-asked"),
            local=cast(ILocalBundling, _Bundling(target, jobs)),
            output_type=BundlingOutput.ARCHIVED,
        ),
    )


def build(directory: Path, target: BundleTarget, jobs: JobPackage | None = None) -> None:
    """Fill ``directory`` with all imports of the functions: dependencies, this package, the handlers, the jobs."""
    requirements = jobs.requirements if jobs else None
    if target.complete or requirements is not None:
        shutil.copytree(_dependencies(target, requirements, directory.parent), directory, dirs_exist_ok=True)
    else:
        _check_installed(target.extras)
    if API in target.extras:
        _leave_out(directory)
    _copy(_package(), directory / "quarterjack", also=_NOT_IN_LAMBDA)
    _copy(HANDLERS, directory / "functions")
    if jobs is not None:
        place = directory / jobs.root.name
        if place.exists() or place.with_suffix("").exists():
            raise Misconfigured(f"jobs={str(jobs.root)!r}: a dependency has the same name; rename the package")
        if jobs.root.is_dir():
            _copy(jobs.root, place)
        else:
            shutil.copy2(jobs.root, place)
    if target.compiled_by is not None:
        _compile(directory, _interpreter(target.compiled_by))


def pack(directory: Path, archive: Path) -> None:
    """Put the files of ``directory`` into an archive with the same bytes on every machine.

    The CDK's own archives have their entries in the order of the file system. They are not compressed, because
    implementations of deflate differ; Lambda unpacks them once.
    """
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for name, place in sorted(
            (p.relative_to(directory).as_posix(), p) for p in directory.rglob("*") if p.is_file()
        ):
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.create_system = _UNIX
            entry.external_attr = (_EXECUTABLE if place.stat().st_mode & stat.S_IXUSR else _PLAIN) << 16
            packed.writestr(entry, place.read_bytes())


def _interpreter(version: str) -> str:
    """An interpreter of that version on this machine. Raises Misconfigured if there is none."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = sys.executable if version == own else which(f"python{version}")
    if found is None:
        remedy = f"install python{version}, or take target=AWS, which has no bytecode"
        raise Misconfigured(f"target=AWS_COMPILED: there is no python{version} on the path; {remedy}")
    return found


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
        place = Path(output_dir)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="bundle.") as directory:
            build(Path(directory), self._target, self._jobs)
            pack(Path(directory), place / "bundle.zip")
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


def _check_installed(extras: tuple[str, ...]) -> None:
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


def _leave_out(directory: Path) -> None:
    """Remove the descriptions of AWS's other services from a bundle: three quarters of its bytes. And PyYAML's compiled half, which is a
    matter of speed alone: with it the bundle would have more than 15 MB.
    """
    data = directory / "botocore" / "data"
    for place in data.iterdir() if data.is_dir() else ():
        if place.is_dir() and place.name not in _SERVICES:
            shutil.rmtree(place)
    for compiled in (directory / "yaml").glob("_yaml*.so"):
        compiled.unlink()


def _package() -> Path:
    found = find_spec("quarterjack")
    if found is None or not found.submodule_search_locations:
        raise Misconfigured("the package quarterjack cannot be found; install it where the CDK app runs")
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
    files = [place for place in (requirements,) if place is not None and place.exists()]
    own = (*_own_requirements(target.extras), _pins(requirements))
    texts = (target.name, *target.arguments, *own, sys.version if target is HERE else "")
    compiled = ("compiled",) if target.compiled_by is not None else ()
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
