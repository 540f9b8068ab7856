"""Bundles for the functions, made by pip from wheels for the target platform, without Docker and without a compiler.

There are three: one for ticker, undertaker and auditor, one for the worker, with the user's jobs in it, and one for the HTTP API, if it
is wanted. A bundle has the same bytes on every machine: no bytecode unless asked for, no path of the machine, and an archive of our own
making.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, cast

import jsii
from aws_cdk import AssetHashType, BundlingOptions, BundlingOutput, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from quarterjack.errors import Misconfigured

from .dependencies import API, BundleTarget, check_installed, dependencies_of, digest, inputs_of
from .jobs import JobPackage

HANDLERS = Path(__file__).parents[2] / "functions"  # beside this package, in the checkout as well as installed
_LEFT_OUT = ("__pycache__", "*.pyc", ".*", "requirements.txt")
_PLAIN, _EXECUTABLE = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755
_UNIX = 3  # the system that an archive's modes are of
_CODE = "/var/task"  # the folder of a bundle on Lambda, as tracebacks show it
_SERVICES = ("dynamodb", "logs", "s3", "sqs", "ssm", "sts")  # that the API asks; no code of users runs in it
_NOT_IN_LAMBDA = ("cli", "local", "testing", "infra", "functions")  # folders of the package that no function imports


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
        shutil.copytree(dependencies_of(target, requirements, directory.parent), directory, dirs_exist_ok=True)
    else:
        check_installed(target.extras)
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
    return digest(
        (
            *inputs_of(target, jobs.requirements if jobs else None),
            *_contents(_package(), _NOT_IN_LAMBDA),
            *_contents(HANDLERS),
            *(_contents(jobs.root) if jobs else ()),
        )
    )


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
