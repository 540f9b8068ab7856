"""The published wheel: each extra by itself, in an environment that has nothing else, imports what it promises and does its main thing.

``QUARTERJACK_TEST_PYTHON`` is the interpreter of these environments, a path or a version; the default is the one that runs the tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.wheels import CORE, PROMISED, ROOT, WITH_PYTEST, Environment, Wheel, build, owners, sources

pytestmark = pytest.mark.check

PROGRAMS = Path(__file__).parent / "programs"
CONSOLE = ROOT / "shared" / "quarterjack" / "console"
SLOWEST_FIRST = sorted(PROMISED, key=lambda extra: (extra not in ("infra", "local"), extra))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return build(tmp_path_factory)


@pytest.fixture(scope="module")
def environment(wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    folder = tmp_path_factory.mktemp("environment")
    yield Environment(folder, wheel)
    shutil.rmtree(folder)  # with the CDK it has 300 MB


@pytest.mark.parametrize("extra", SLOWEST_FIRST)
def test_an_extra_works_by_itself(extra: str, wheel: Wheel, environment: Environment, tmp_path: Path) -> None:
    modules = [name for name in wheel.modules if extra in owners(name)]
    assert bool(modules) == bool(PROMISED[extra])
    environment.install(extra)
    environment.run((PROGRAMS / f"{extra}.py").read_text(), modules, tmp_path / "empty")


def test_the_fixtures_work_beside_pytest(environment: Environment, tmp_path: Path) -> None:
    environment.install("local", "pytest")
    environment.run((PROGRAMS / "plugin.py").read_text(), WITH_PYTEST, tmp_path / "empty")


def test_every_published_extra_is_tried(wheel: Wheel) -> None:
    assert wheel.extras == PROMISED.keys() - {CORE}
    assert {name: owners(name) for name in wheel.modules if not owners(name)} == {name: set() for name in WITH_PYTEST}


def test_the_wheel_holds_every_module_of_the_checkout_and_no_other(wheel: Wheel) -> None:
    assert wheel.modules == sorted(name for name, _ in sources() if not name.endswith(".__main__"))
    assert "quarterjack/py.typed" in wheel.files


def test_the_wheel_holds_the_templates_and_assets_of_the_console(wheel: Wheel) -> None:
    places = {place for place in CONSOLE.rglob("*") if place.is_file() and place.suffix not in (".py", ".pyc")}
    inside = "quarterjack/console/"
    held = {name.removeprefix(inside) for name in wheel.files if name.startswith(inside) and not name.endswith(".py")}
    assert held == {place.relative_to(CONSOLE).as_posix() for place in places}
    assert len(held) > 15


def test_the_wheel_knows_the_versions_of_its_release(wheel: Wheel) -> None:
    assert wheel.text("extra_metadata/constraints.txt") == (ROOT / "constraints.txt").read_text(encoding="utf-8")
