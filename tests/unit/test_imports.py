"""Imports point one way: functions → flow → pure core. The rules themselves stand in pyproject.toml."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[2]

_REVERSED = """
[tool.importlinter]
root_package = "quarterjack"

[[tool.importlinter.contracts]]
name = "The world upside down"
type = "layers"
layers = ["quarterjack.errors", "quarterjack.fires", "quarterjack.cli"]
"""


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    """The linter configures logging for itself, and so disables every logger that there is."""
    disabled = {name for name, logger in _all_loggers() if logger.disabled}
    yield
    for name, logger in _all_loggers():
        logger.disabled = name in disabled


def _all_loggers() -> list[tuple[str, logging.Logger]]:
    known = logging.root.manager.loggerDict
    return [(name, logger) for name, logger in known.items() if isinstance(logger, logging.Logger)]


def test_imports_keep_to_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_a_broken_rule_would_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "pyproject.toml"
    config.write_text(_REVERSED)
    assert lint_imports(config_filename=str(config), no_cache=True) != EXIT_STATUS_SUCCESS
    assert "The world upside down BROKEN" in capsys.readouterr().out


def test_tests_share_code_through_their_support_alone() -> None:
    """No test imports another test, and what tests share knows none of them."""
    graph = grimp.build_graph("tests", cache_dir=None)
    imported = [(name, of) for name in graph.modules for of in graph.find_modules_directly_imported_by(name)]
    assert len(imported) > 500
    assert [(name, of) for name, of in imported if not of.startswith("tests.support")] == []
