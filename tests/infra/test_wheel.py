"""The published wheel: the SDK, the handlers and the construct, usable without this checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.pins import pins

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "acme" / "jobs"

_APP = """
from quarterjack.infra import Quarterjack
from aws_cdk import App, Stack
import quarterjack.infra, quarterjack.infra.packaging.bundling as bundling
app = App(context={"aws:cdk:bundling-stacks": []})
stack = Stack(app, "Users")
Quarterjack(stack, "Jobs", jobs="JOBS")
app.synth()
print(quarterjack.infra.__file__)
print(bundling.HANDLERS)
print(sum("==" in line for line in bundling._pins(None).splitlines()))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked where nothing else is."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = place.glob("quarterjack-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    return place / "site"


def test_the_wheel_holds_every_module_of_the_checkout_and_no_other(installed: Path) -> None:
    expected = {
        str(Path("quarterjack", *under, place.relative_to(root)))
        for root, under in (
            (ROOT / "shared" / "quarterjack", ()),
            (ROOT / "functions", ("functions",)),
            (ROOT / "infra", ("infra",)),
        )
        for place in root.rglob("*.py")
    }
    assert {str(place.relative_to(installed)) for place in installed.rglob("*.py")} == expected
    assert (installed / "quarterjack" / "py.typed").is_file()


def test_the_wheel_holds_the_templates_and_assets_of_the_console(installed: Path) -> None:
    room = ROOT / "shared" / "quarterjack" / "console"
    expected = {
        place.relative_to(room) for place in room.rglob("*") if place.is_file() and place.suffix not in (".py", ".pyc")
    }
    built = installed / "quarterjack" / "console"
    assert {
        place.relative_to(built) for place in built.rglob("*") if place.is_file() and place.suffix != ".py"
    } == expected
    assert len(expected) > 15


def test_a_user_builds_a_stack_with_the_installed_construct(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _APP.replace("JOBS", str(JOBS))],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(installed / "quarterjack" / "infra" / "__init__.py"),
        str(installed / "quarterjack" / "functions"),
        str(
            len(pins((ROOT / "constraints.txt").read_text(encoding="utf-8")))
        ),  # it deploys the versions of its release
    ]
