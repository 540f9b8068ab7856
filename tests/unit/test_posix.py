"""Windows: everything imports, the SDK, the API and the harness work, and what needs Linux or macOS says so in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.wheels import ROOT, sources

pytestmark = pytest.mark.check

PROGRAM = """
import json, sys
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from tests.support.windows import pretend

def said(call, *given):
    with redirect_stderr(StringIO()) as text:
        try:
            return [call(*given), text.getvalue()]
        except Exception as problem:
            return [f"{type(problem).__name__}: {problem}", text.getvalue()]

modules, programs = json.load(sys.stdin)
pretend()
refused = {name: found for name in modules if isinstance(found := said(import_module, name)[0], str)}
works = {Path(place).stem: said(exec, compile(Path(place).read_text(), place, "exec"), {})[0] for place in programs}

from quarterjack import Registry
from quarterjack.cli.app import run
from quarterjack.local.cloud import LocalCloud
from quarterjack.ready_jobs.http import http_job

works["http job"] = said(lambda: http_job("call", registry=Registry(), hosts=["example.com"]) and None)[0]
commands = {name: said(run, [name]) for name in ("local", "worker")}
print(json.dumps({"refused": refused, "works": works, "commands": commands, "cloud": said(LocalCloud)[0]}))
"""
SAID = (
    "cannot run here; run it on Linux, on macOS, or on Windows in WSL; the SDK and the HTTP API run on Windows itself"
)


@pytest.fixture(scope="module")
def on_windows() -> Any:
    """What a process that takes itself for one on Windows reports: the errors of all that it tries."""
    names = [name for name, place in sources() if ROOT / "shared" in place.parents and place.stem != "__main__"]
    assert len(names) > 400
    programs = [str(ROOT / "tests" / "packaging" / "programs" / f"{name}.py") for name in ("core", "web")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        input=json.dumps([names, programs]),
        env=environ,
        cwd=Path.home(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_module_of_the_package_imports_on_windows(on_windows: Any) -> None:
    assert on_windows["refused"] == {}


def test_the_sdk_the_harness_the_api_and_http_jobs_work_on_windows(on_windows: Any) -> None:
    assert on_windows["works"] == {"core": None, "web": None, "http job": None}


@pytest.mark.parametrize("command", ["local", "worker"])
def test_commands_that_need_another_system_say_so(command: str, on_windows: Any) -> None:
    code, text = on_windows["commands"][command]
    assert f"platform='win32': quarterjack {command} {SAID}" in " ".join(text.split())
    assert code == 6


def test_the_local_cloud_says_so(on_windows: Any) -> None:
    assert on_windows["cloud"] == f"Misconfigured: platform='win32': the local cloud {SAID}"
