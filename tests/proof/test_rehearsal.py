"""The commands of docs/how-to/test-locally.md that put a stack with one's own jobs on the embedded cloud, as they stand there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from quarterjack import Scheduler, Settings

from infra.local_proof import Waits
from tests.support.doc_pages import ROOT, page

pytestmark = [pytest.mark.proof, pytest.mark.cloud]

TITLE = "### Your stack on the embedded cloud\n"
JOBS = "examples/starter"
PATIENCE = 120.0  # seconds


def commands() -> list[str]:
    """The lines of the section that are typed, from the start of the cloud on."""
    section = page("docs/how-to/test-locally.md").text.partition(TITLE)[2].partition("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as the reader has it: the same files, and a context of its own."""
    for name in (".venv", ".node", "infra", "functions", "shared", "tools", "examples", "docs", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("cdk.json", "constraints.txt", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "cdk.context.json").write_text(json.dumps({"jobs": JOBS}))
    return tmp_path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "QUARTERJACK_"))}
    tools = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": tools, "XDG_STATE_HOME": str(tmp_path / "state"), "CDK_DISABLE_CLI_TELEMETRY": "true"}


@pytest.fixture
def cloud(folder: Path, environ: dict[str, str]) -> Iterator[None]:
    """The first command, until the test is over."""

    def asked() -> str | None:
        told = subprocess.run(
            ["quarterjack", "local", "--env"], cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        return told.stderr if told.returncode else None

    log = folder / "local.log"
    with (
        log.open("w") as said,
        subprocess.Popen(commands()[0].split(), cwd=folder, env=environ, stdout=said) as started,
    ):
        try:
            Waits(patience=PATIENCE, log=log).until("the cloud", asked)
            yield
        finally:
            started.terminate()


def test_the_stack_of_ones_own_jobs_is_deployed_as_the_page_says(
    folder: Path, environ: dict[str, str], cloud: None
) -> None:
    deployed, resent = commands()[1:4], commands()[-1]
    assert [line.split()[0] for line in deployed] == ["eval", "cdk", "cdk"]
    typed = "\n".join(
        ["set -e", *deployed, resent, f"{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"]
    )
    done = subprocess.run(["bash", "-c", typed], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    given = json.loads(done.stdout.splitlines()[-1])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, given[name])
        where = {"endpoint": given["AWS_ENDPOINT_URL"], "region": given["AWS_REGION"]}
        scheduler = Scheduler(settings=Settings(prefix="rehearsal", **where))
        run = scheduler.submit("starter.hello", {})
        Waits(patience=PATIENCE, log=folder / "local.log").until(
            "the run", lambda: None if scheduler.get_run(run.id).state == "SUCCEEDED" else "it has not succeeded"
        )
