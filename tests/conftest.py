"""Fixtures for all tests: ``local_cloud`` (one for the session) and ``local_settings`` (a fresh installation on it).

``make contract ENDPOINT=…`` puts another cloud in its place.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from inspect import CO_VARKEYWORDS
from itertools import chain
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.session
import hypothesis
import pytest
from botocore import hooks
from quarterjack import masking
from quarterjack.daemon import worker_process
from quarterjack.local import installation
from quarterjack.local.cloud import LocalCloud
from quarterjack.logs import Lines

from tests.support import endpoints
from tests.support.parts import TURN, LongTests, in_its_turn, long_tests, sample

# A shell starts what it puts into the background with SIGINT ignored, and the commands that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["quarterjack.testing.plugin", "tests.support.browser.fixtures"]

# A loaded machine is slow, and a test that is slow there is not wrong.
hypothesis.settings.register_profile(
    "without_clocks", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# `make check`, which decides about landing, tries the same examples each time; `make test` and `make proof` go on looking for others.
hypothesis.settings.register_profile("fixed", hypothesis.settings.get_profile("without_clocks"), derandomize=True)
# A further interpreter (`make pythons`): what is looked for is the interpreter's doing, not a rare input.
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("fixed"), max_examples=5)
hypothesis.settings.load_profile("without_clocks")


def pytest_addoption(parser: pytest.Parser) -> None:
    for_another_python = parser.getgroup("samples", "samples of tests, for `make pythons`")
    for_another_python.addoption("--cases", type=int, default=0, help="parameter sets of each test function; 0: all")
    for_another_python.addoption("--files", type=int, default=1, help="one in so many files, others every day; 1: all")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose turn it is not is not even read: reading all of them takes half a minute of processor time."""
    not_today = not in_its_turn(collection_path.name, config.getoption("files"))
    return True if not_today and collection_path.name.startswith("test_") else None


def pytest_report_header() -> str:
    return f"parts of long tests: TURN={TURN} repeats these"


_long = LongTests(long_tests())
_LONG, _LISTED = 300.0, 25  # seconds of all tests from which the longest are listed; how many


def pytest_itemcollected(item: pytest.Item) -> None:
    _long.marks(item)


@pytest.hookimpl(trylast=True)  # a sample of what the marks have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With an endpoint, tests that are known to be wrong there are expected to fail. With a number of cases, each test has no more."""
    if (engine := endpoints.engine_asked_for()) is not None:
        elsewhere = endpoints.amend(items, engine)
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
    if cases := config.getoption("cases"):
        kept = sample([item.nodeid for item in items], cases)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]


def pytest_collection() -> None:
    """What the imports leave, a million objects, is there to stay: the garbage collector need not look at it again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # in place of 700, 10, 10: looking for cycles took a fifteenth of the tests' time
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where the time of a long session went: the test functions that took most of it, all their parameters together."""
    spent = defaultdict[str, float](float)
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            spent[report.nodeid.partition("[")[0]] += report.duration
    if (total := sum(spent.values())) > _LONG:
        terminalreporter.section(f"{total:,.0f} s of tests, {len(spent):,} functions; longest")
        for name, seconds in sorted(spent.items(), key=itemgetter(1), reverse=True)[:_LISTED]:
            terminalreporter.write_line(f"{seconds:6.0f} s  {name.removeprefix('tests/')}")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, because a third of the tests' time is waiting; and 2 GB of memory for each."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2_000_000_000
    return max(min(cores + 1, memory), 1)


@pytest.fixture(autouse=True, scope="session")
def own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test writes into the state folder of the user, or finds what the user runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def own_log_format(request: pytest.FixtureRequest) -> Iterator[None]:
    """What one test does to the process's log ends with it.

    A Lambda function gives its format to all handlers of its process, those behind ``caplog`` too. The command line
    puts a handler for its standard error, which is closed when its test is over.
    """
    plugin = request.config.pluginmanager.get_plugin("logging-plugin")
    handlers = [] if plugin is None else [plugin.caplog_handler, plugin.report_handler]
    before = [(handler.formatter, handler.filters[:]) for handler in handlers]
    root = logging.getLogger()
    own, level = root.handlers[:], root.level
    yield
    for handler, (formatter, filters) in zip(handlers, before, strict=True):
        handler.setFormatter(formatter)
        handler.filters[:] = filters
    for left in (handler for handler in root.handlers[:] if handler not in own and isinstance(handler, Lines)):
        root.removeHandler(left)
    if root.level != level:  # else all loggers would look for theirs anew
        root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """What one test's runs have looked up is masked in no other test; nor are its hooks there."""
    hooks = threading.excepthook, sys.unraisablehook
    yield
    threading.excepthook, sys.unraisablehook = hooks
    masking.of_process.clear()


@pytest.fixture(scope="session")
def local_cloud() -> Iterator[LocalCloud]:
    """One cloud for the whole test session."""
    with endpoints.session_cloud() as cloud:
        yield cloud


@pytest.fixture(scope="session", autouse=True)
def short_polls() -> Iterator[None]:
    """A worker in a thread of a test ends when its last poll does: after 1 s instead of 5."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "_POLL", 1.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def what_botocore_prepares_once() -> Iterator[None]:
    """Each session of botocore reads the descriptions of its services anew, and inspects and renames a hundred of its own hooks.

    That took more processor time than the requests of most tests on the local cloud.
    """
    renamed, rename, accepts = dict[str, str](), hooks.EventAliaser._alias_event_name, hooks.accepts_kwargs

    def renamed_once(aliaser: Any, event: str) -> str:
        if event not in renamed:
            renamed[event] = rename(aliaser, event)
        return renamed[event]

    def accepts_keywords(handler: Any) -> Any:
        code = getattr(handler, "__code__", None)
        return accepts(handler) if code is None else code.co_flags & CO_VARKEYWORDS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        patch.setattr(hooks.EventAliaser, "_alias_event_name", renamed_once)
        patch.setattr(hooks, "accepts_kwargs", accepts_keywords)
        yield


@pytest.fixture(scope="session", autouse=True)
def clients_that_provision() -> Iterator[None]:
    """Hundreds of tests have tables and queues of their own on one local cloud: its clients are made once."""

    @cache
    def made(key: str | None, service: str, **where: Any) -> Any:
        return boto3.client(service, **where)

    def client(service: str, **where: Any) -> Any:
        return made(os.environ.get("AWS_ACCESS_KEY_ID"), service, **where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(installation, "boto3", SimpleNamespace(client=client))
        yield
