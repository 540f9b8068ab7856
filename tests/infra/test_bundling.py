"""The bundles: made by pip, without Docker, for a machine that is not this one."""

from __future__ import annotations

import json
import marshal
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.extras import install_remedy

from infra.packaging import dependencies
from infra.packaging.bundling import HANDLERS, build, fingerprint, pack
from infra.packaging.dependencies import AWS, HERE, RUNTIME, for_api
from infra.packaging.jobs import JobPackage, find_jobs

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "acme" / "jobs"
LIMIT = 250 * 1024 * 1024  # bytes, unzipped: Lambda's
FOR_ANYTHING = re.compile(r"(py2\.)?py3-none-any")
FOR_LAMBDA = re.compile(rf"cp{RUNTIME.name.removeprefix('python').replace('.', '')}-(cp\d+|abi3)-manylinux\w+_aarch64")
COMPLETE = replace(HERE, complete=True)  # as for AWS, and yet importable here


@pytest.fixture(scope="session")
def aws_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worker's bundle as it is deployed to AWS. Its jobs need a package with compiled code; nothing of ours has any."""
    directory = tmp_path_factory.mktemp("aws") / "bundle"
    directory.mkdir()
    requirements = directory.parent / "requirements.txt"
    requirements.write_text("markupsafe\n")
    build(directory, AWS, find_jobs(JOBS, requirements))
    return directory


@pytest.fixture(scope="session")
def core_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of the other three functions, for this interpreter."""
    directory = tmp_path_factory.mktemp("core") / "bundle"
    directory.mkdir()
    build(directory, COMPLETE)
    return directory


@pytest.fixture(scope="session")
def worker_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worker's bundle for this interpreter, with a requirement of the user's."""
    place = tmp_path_factory.mktemp("worker")
    requirements = place / "requirements.txt"
    requirements.write_text(f"{_wheel(place, 'acme_tools')}\n")
    (place / "bundle").mkdir()
    build(place / "bundle", COMPLETE, find_jobs(JOBS, requirements))
    return place / "bundle"


def test_every_wheel_for_aws_fits_graviton_and_the_runtime(aws_bundle: Path) -> None:
    tags = {
        wheel.parent.name: re.findall(r"^Tag: (.+)$", wheel.read_text(), flags=re.MULTILINE)
        for wheel in aws_bundle.glob("*.dist-info/WHEEL")
    }
    assert {name.partition("-")[0] for name in tags} >= {"boto3", "croniter", "aws_lambda_powertools", "markupsafe"}
    for name, listed in tags.items():
        assert any(_fits(tag) for tag in listed), f"{name}: {listed}"


def test_every_binary_for_aws_is_for_graviton_and_the_runtime(aws_bundle: Path) -> None:
    binaries = list(aws_bundle.rglob("*.so*"))
    assert binaries, "no binary: then this test proves nothing"
    for binary in binaries:
        machine = int.from_bytes(binary.read_bytes()[18:20], "little")
        assert machine == 0xB7, f"{binary.name} is not for aarch64 but for {machine:#x}"


def test_the_bundle_holds_what_runs_and_no_more(aws_bundle: Path) -> None:
    assert sum(place.stat().st_size for place in aws_bundle.rglob("*")) < LIMIT
    assert not list(aws_bundle.rglob("*.pyc"))
    assert (aws_bundle / "functions" / "worker" / "handler.py").is_file()
    assert (aws_bundle / "quarterjack" / "sdk" / "scheduler.py").is_file()
    assert (aws_bundle / "acme" / "jobs" / "__init__.py").is_file()
    for left_out in ("cli", "local", "testing", "infra"):
        assert not (aws_bundle / "quarterjack" / left_out).exists()
    for unused in ("rich", "typer", "ministack", "aws_cdk", "pytest", "aws_xray_sdk", "wrapt"):
        assert not (aws_bundle / unused).exists()


def test_a_bundle_has_the_same_bytes_whoever_makes_it(worker_bundle: Path, tmp_path: Path) -> None:
    """Another folder, another umask, a wheel from another place: the same bundle."""
    script = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from infra.packaging.bundling import build; from infra.packaging.dependencies import HERE; "
        "from infra.packaging.jobs import find_jobs; from os import umask; umask(0o077)\n"
        "build(Path(sys.argv[1]), replace(HERE, complete=True), find_jobs(sys.argv[2], sys.argv[3]))"
    )
    (tmp_path / "requirements.txt").write_text(f"{_wheel(tmp_path, 'acme_tools')}\n")
    theirs = tmp_path / "elsewhere" / "bundle"
    theirs.mkdir(parents=True)
    places = (theirs, JOBS, tmp_path / "requirements.txt")
    subprocess.run([sys.executable, "-c", script, *map(str, places)], check=True, cwd=ROOT)
    pack(worker_bundle, tmp_path / "ours.zip")
    pack(theirs, tmp_path / "theirs.zip")
    ours, others = _entries(tmp_path / "ours.zip"), _entries(tmp_path / "theirs.zip")
    assert "acme_tools/__init__.py" in ours
    assert {name for name in ours.keys() | others.keys() if ours.get(name) != others.get(name)} == set()
    assert (tmp_path / "ours.zip").read_bytes() == (tmp_path / "theirs.zip").read_bytes()


def test_an_archive_depends_on_names_bytes_and_the_right_to_execute_only(tmp_path: Path) -> None:
    archives = []
    for number, names in enumerate((["b/c.py", "a.py", "run"], ["run", "a.py", "b/c.py"])):
        folder = tmp_path / str(number)
        (folder / "b").mkdir(parents=True)
        for name in names:
            (folder / name).write_text(name)
            (folder / name).chmod(0o700 if name == "run" else (0o600, 0o664)[number])
            os.utime(folder / name, (10**9 + number, 10**9 + number))
        pack(folder, tmp_path / f"{number}.zip")
        archives.append((tmp_path / f"{number}.zip").read_bytes())
    assert archives[0] == archives[1]
    with zipfile.ZipFile(tmp_path / "0.zip") as packed:
        modes = [(entry.filename, oct(entry.external_attr >> 16)) for entry in packed.infolist()]
    assert modes == [("a.py", "0o100644"), ("b/c.py", "0o100644"), ("run", "0o100755")]


def _entries(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def test_a_bundle_has_no_path_of_the_machine(worker_bundle: Path) -> None:
    here = (sys.executable.encode(), str(worker_bundle.parent).encode(), str(ROOT).encode())
    assert not [p.name for p in worker_bundle.rglob("*") if p.is_file() and any(w in p.read_bytes() for w in here)]


def test_bytecode_is_refused_without_an_interpreter_of_its_version(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"no python3\.99 on the path; install python3\.99, or take target=AWS"):
        build(tmp_path, replace(HERE, compiled_by="3.99"))


def test_a_bundle_is_compiled_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    compiled = replace(HERE, compiled_by=f"{sys.version_info[0]}.{sys.version_info[1]}")
    build(tmp_path / "bundle", compiled)
    handler = tmp_path / "bundle" / "functions" / "ticker" / "handler.py"
    bytecode = Path(cache_from_source(str(handler))).read_bytes()
    unchecked = 1  # PEP 552: by hash, which nobody looks at
    assert int.from_bytes(bytecode[4:8], "little") == unchecked
    assert marshal.loads(bytecode[16:]).co_filename == "/var/task/functions/ticker/handler.py"
    assert fingerprint(compiled, None) != fingerprint(HERE, None)


def test_the_handlers_find_all_that_they_import_in_the_bundle(core_bundle: Path) -> None:
    _run_in(core_bundle, "import functions.ticker.handler, functions.undertaker.handler, functions.auditor.handler")


def test_the_worker_finds_the_users_jobs_and_what_they_require(worker_bundle: Path) -> None:
    _run_in(
        worker_bundle, "import functions.worker.handler, acme_tools; from quarterjack import load; load('acme.jobs')"
    )


def test_the_users_package_and_requirements_are_in_the_workers_bundle_only(
    core_bundle: Path, worker_bundle: Path
) -> None:
    for name in ("acme", "acme_tools"):
        assert (worker_bundle / name).is_dir()
        assert not (core_bundle / name).exists()


def test_a_bundle_for_this_interpreter_leaves_out_what_is_installed_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bundle").mkdir()
    build(tmp_path / "bundle", HERE, find_jobs(JOBS))
    assert {place.name for place in (tmp_path / "bundle").iterdir()} == {"acme", "functions", "quarterjack"}
    monkeypatch.setattr(dependencies, "_own_requirements", lambda extras: ("a-missing-library>=1",))
    with pytest.raises(
        Misconfigured,
        match=re.escape(f"a-missing-library is not installed in this interpreter; run: {install_remedy('functions')}"),
    ):
        build(tmp_path / "bundle", HERE, find_jobs(JOBS))
    assert fingerprint(HERE, None) != fingerprint(COMPLETE, None)


def test_a_requirement_without_a_wheel_for_lambda_is_refused_and_named(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "acme_native", tag="cp311-cp311-win_amd64")
    (tmp_path / "requirements.txt").write_text(f"{wheel}\n")
    (tmp_path / "bundle").mkdir()
    with pytest.raises(Misconfigured, match="acme_native"):
        build(tmp_path / "bundle", AWS, find_jobs(JOBS, tmp_path / "requirements.txt"))


def test_what_checks_payloads_is_in_the_workers_bundle_if_the_jobs_require_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("jsonschema-rs\npydantic\n")
    (tmp_path / "bundle").mkdir()
    build(tmp_path / "bundle", AWS, find_jobs(JOBS, tmp_path / "requirements.txt"))
    assert (tmp_path / "bundle" / "pydantic").is_dir()
    (engine,) = (tmp_path / "bundle" / "jsonschema_rs").glob("*.so")
    assert int.from_bytes(engine.read_bytes()[18:20], "little") == 0xB7
    assert sum(place.stat().st_size for place in (tmp_path / "bundle").rglob("*")) < LIMIT


# --- when a bundle is made anew ---


def test_a_bundle_is_made_anew_when_a_job_changes_and_not_when_it_is_compiled(tmp_path: Path) -> None:
    package = tmp_path / "work"
    package.mkdir()
    (package / "__init__.py").write_text("A = 1\n")
    before = fingerprint(AWS, find_jobs(package))
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "__init__.cpython-311.pyc").write_bytes(b"anything")
    assert fingerprint(AWS, find_jobs(package)) == before
    (package / "__init__.py").write_text("A = 2\n")
    assert fingerprint(AWS, find_jobs(package)) != before


def test_a_bundle_is_made_anew_when_requirements_or_target_change(tmp_path: Path) -> None:
    requirements = tmp_path / "wanted.txt"
    requirements.write_text("six\n")
    before = fingerprint(AWS, find_jobs(JOBS, requirements))
    assert fingerprint(HERE, find_jobs(JOBS, requirements)) != before
    requirements.write_text("six==1.17.0\n")
    assert fingerprint(AWS, find_jobs(JOBS, requirements)) != before


# --- the user's package ---


def test_what_the_user_requires_is_not_pinned_by_us(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("Boto3 == 1.40.0  # ours is another\n-r more.txt\n./local.whl\n")
    ours, theirs = dependencies._pins(None), dependencies._pins(requirements)
    assert "boto3==" in ours
    assert "--hash" not in ours
    assert [line for line in ours.splitlines() if line not in theirs.splitlines()] == [
        next(line for line in ours.splitlines() if line.startswith("boto3=="))
    ]


def test_a_package_in_a_package_is_imported_by_its_full_name() -> None:
    assert find_jobs(JOBS) == JobPackage(name="acme.jobs", root=JOBS.parent.resolve(), requirements=None)


def test_a_module_is_enough(tmp_path: Path) -> None:
    module = tmp_path / "chores.py"
    module.write_text("")
    assert find_jobs(module) == JobPackage(name="chores", root=module.resolve(), requirements=None)


@pytest.mark.parametrize("place", ["chores/requirements.txt", "requirements.txt"])
def test_requirements_are_found_in_the_package_and_beside_it(tmp_path: Path, place: str) -> None:
    (tmp_path / "chores").mkdir()
    (tmp_path / "chores" / "__init__.py").write_text("")
    (tmp_path / place).write_text("six\n")
    assert find_jobs(tmp_path / "chores").requirements == (tmp_path / place).resolve()


@pytest.mark.parametrize("name", ["functions", "quarterjack"])
def test_a_package_cannot_take_the_place_of_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    with pytest.raises(InvalidInput, match="rename yours"):
        find_jobs(tmp_path / name)


def test_the_handlers_are_where_the_bundle_looks_for_them() -> None:
    assert {place.parent.name for place in HANDLERS.glob("*/handler.py")} == {
        "ticker",
        "worker",
        "undertaker",
        "auditor",
        "historian",
        "events",
        "api",
    }


@pytest.mark.parametrize(("oidc", "most"), [(False, 15), (True, 22)])
def test_the_apis_bundle_has_its_framework_and_is_no_larger(tmp_path: Path, oidc: bool, most: int) -> None:
    """15 MiB zipped; 22 with ``cryptography``, for who has a load balancer sign people in."""
    (tmp_path / "bundle").mkdir()
    build(tmp_path / "bundle", for_api(AWS, oidc=oidc))
    for needed in ("fastapi", "jinja2", "mangum", "pydantic", "jsonschema_rs", "quarterjack/console/static"):
        assert (tmp_path / "bundle" / needed).exists(), needed
    assert (tmp_path / "bundle" / "cryptography").exists() is oidc
    assert (tmp_path / "bundle" / "jwt").exists() is oidc
    for left_out in ("uvicorn", "httpx", "rich", "typer"):
        assert not (tmp_path / "bundle" / left_out).exists(), left_out
    with zipfile.ZipFile(tmp_path / "deflated.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for place in (tmp_path / "bundle").rglob("*"):
            packed.write(place, place.relative_to(tmp_path / "bundle"))
    assert (tmp_path / "deflated.zip").stat().st_size < most * 1024 * 1024


def test_the_api_finds_all_that_it_imports_and_asks_in_its_bundle(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    build(tmp_path / "bundle", for_api(COMPLETE))
    clients = "[services().__class__, services().logs._connect(), it._application(), gateway_front_door(services())]"
    imports = "from functions.observe import services; from quarterjack.console.app import gateway_front_door"
    _run_in(tmp_path / "bundle", f"import functions.api.handler as it; {imports}; {clients}")


def _fits(tag: str) -> bool:
    return bool(FOR_ANYTHING.fullmatch(tag) or FOR_LAMBDA.fullmatch(tag))


def _run_in(bundle: Path, code: str) -> None:
    """Run code that sees the standard library and the bundle, and nothing of this environment."""
    program = f"import sys; sys.path.insert(0, {json.dumps(str(bundle))}); {code}"
    environment = {"AWS_REGION": "us-east-1", "POWERTOOLS_SERVICE_NAME": "test"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _wheel(folder: Path, name: str, tag: str = "py3-none-any") -> Path:
    """A wheel with one empty package in it."""
    place = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return place
