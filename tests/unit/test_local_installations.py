"""The local installations that run on this machine: found by their files, chosen by ``--local``, used by nothing unasked."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from quarterjack import Scheduler
from quarterjack.cli.app import run
from quarterjack.cli.exits import ExitCode
from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local_installations import (
    RunningInstallation,
    chosen,
    export_line,
    published,
    running_installations,
    using,
)
from quarterjack.settings import Settings, state_folder
from quarterjack.testing.cloud import fresh_settings

from tests.support.command_line import environment

PUBLISH = """
import os, signal, sys
from quarterjack.local_installations import RunningInstallation, published
with published(RunningInstallation(prefix="killed", port=1, pid=os.getpid(), folder="/f", variables={})):
    print("published", flush=True)
    signal.pause()
"""


def installation(prefix: str = "quarterjack", port: int = 4001, **variables: str) -> RunningInstallation:
    return RunningInstallation(prefix=prefix, port=port, pid=port, folder="/logs", variables=variables)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A terminal without region, endpoint and profile, on a machine on which nothing runs."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "QUARTERJACK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    assert not list(tmp_path.glob("quarterjack/local/*.json"))


pytestmark = pytest.mark.usefixtures("nowhere")


def test_it_is_found_for_as_long_as_it_runs_and_belongs_to_the_user_alone() -> None:
    one = installation(AWS_ACCESS_KEY_ID="k")
    with published(one):
        assert list(running_installations()) == [one]
        (file,) = (folder := state_folder() / "local").glob("*.json")
        assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o700, 0o600]
    assert list(running_installations()) == []


def test_the_file_of_a_killed_process_is_not_believed_and_removed() -> None:
    with subprocess.Popen([sys.executable, "-c", PUBLISH], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "published\n"
        assert [one.prefix for one in running_installations()] == ["killed"]
        other.send_signal(signal.SIGKILL)
    assert list((state_folder() / "local").glob("*.json"))
    assert list(running_installations()) == []


def test_files_of_another_release_and_of_another_host_are_left_alone() -> None:
    with published(installation()):
        folder = state_folder() / "local"
        stranger = folder / "elsewhere.1.json"
        stranger.write_text("{}")
        (file,) = set(folder.glob("*.json")) - {stranger}
        file.write_text('{"form": 2}')
        assert list(running_installations()) == []
        assert stranger.exists()
        stranger.unlink()


def test_one_is_chosen_by_itself_and_several_by_prefix_or_port() -> None:
    with pytest.raises(Misconfigured, match="--local: no local installation runs on this machine; start one: quarter"):
        chosen("")
    with published(installation("quarterjack", 4001)):
        assert chosen("").port == 4001
        with published(installation("other", 4002)):
            assert chosen("other").port == 4002
            assert chosen("4001").prefix == "quarterjack"
            with pytest.raises(Misconfigured, match=r"2 local installations fit; .*port 4001, .*port 4002"):
                chosen("")
            with pytest.raises(Misconfigured, match=r"--local=5: no local .* prefix or port; .*port 4001, .*port 4002"):
                chosen("5")


def test_the_one_that_is_used_hides_all_variables_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_SQS", "QUARTERJACK_STRIPES", "QUARTERJACK_ACTOR", "OTHER"):
        monkeypatch.setenv(name, "mine")
    before = dict(os.environ)
    with published(installation(AWS_REGION="r")), using(""):
        assert os.environ["AWS_REGION"] == "r"
        assert before.keys() - os.environ.keys() >= {"AWS_PROFILE", "AWS_ENDPOINT_URL_SQS", "QUARTERJACK_STRIPES"}
        assert os.environ["QUARTERJACK_ACTOR"] == os.environ["OTHER"] == "mine"
    assert dict(os.environ) == before


class TestWithoutARegion:
    def test_the_sdk_names_the_one_that_runs_and_does_not_use_it(self) -> None:
        with published(installation(AWS_ENDPOINT_URL="http://127.0.0.1:4001", AWS_REGION="us-east-1")):
            with pytest.raises(Misconfigured) as problem:
                Scheduler()
            assert "AWS_REGION and AWS_ENDPOINT_URL are not set" in str(problem.value)
            assert "runs on this machine (prefix quarterjack, port 4001," in str(problem.value)
            assert 'eval "$(quarterjack local --env)"' in str(problem.value)
            assert "--local before" not in str(problem.value)

    def test_other_clients_say_the_same(self) -> None:
        with published(installation()), pytest.raises(Misconfigured, match="port 4001"):
            Scheduler(settings=Settings(aws_client="botocore"))

    def test_several_are_listed(self) -> None:
        wanted = r"port 4001.*port 4002.*--local=PORT local --env"
        with (
            published(installation(port=4001)),
            published(installation(port=4002)),
            pytest.raises(Misconfigured, match=wanted),
        ):
            Scheduler()

    def test_without_one_it_says_how_to_start_one(self) -> None:
        with pytest.raises(Misconfigured, match=r"or run an installation on this machine: quarterjack local$"):
            Scheduler()

    def test_a_profile_or_a_region_that_somebody_named_is_meant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        config = Path(os.environ["HOME"], "config")
        config.write_text("[profile work]\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_PROFILE", "work")
        with published(installation()), pytest.raises(Misconfigured) as problem:
            Scheduler()
        assert "4001" not in str(problem.value)

    def test_a_command_offers_the_option(self, capsys: pytest.CaptureFixture[str]) -> None:
        with published(installation()):
            assert run(["schedules", "list"]) == ExitCode.MISCONFIGURED
            assert "`quarterjack --local schedules list`" in capsys.readouterr().err
            assert run(["doctor"]) == ExitCode.FAILED
            assert "`quarterjack --local schedules list`" in capsys.readouterr().out

    def test_keys_alone_are_missing_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with published(installation()), pytest.raises(Misconfigured, match=r"no AWS credentials; .*port 4001"):
            Scheduler().list_schedules()


class TestTheOption:
    @pytest.fixture
    def running(self, local_cloud: LocalCloud) -> Iterator[RunningInstallation]:
        with reached_by_this_process(local_cloud.credentials):
            settings = fresh_settings(local_cloud)
        variables = {**local_cloud.environment, **environment(settings)}
        one = RunningInstallation(prefix=settings.prefix, port=4001, pid=4001, folder="/logs", variables=variables)
        with published(one):
            yield one

    def test_a_command_uses_what_it_chooses(
        self, running: RunningInstallation, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = dict(os.environ)
        for words in (["--local"], ["--local=4001"], [f"--local={running.prefix}"], ["--json", "--local"]):
            assert run([*words, "schedules", "upsert", "nightly", "any.job", "@daily"]) == 0
            capsys.readouterr()
            assert run([*words, "schedules", "list"]) == 0
            assert "nightly" in capsys.readouterr().out
        assert dict(os.environ) == before

    def test_its_variables_are_printed_for_eval_and_only_for_that_does_local_take_it(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with published(one := installation(A="b c", D="e")), ExitStack() as others:
            assert run(["local", "--env"]) == 0
            assert capsys.readouterr().out == export_line(one.variables) + "\n" == "export A='b c' D=e\n"
            others.enter_context(published(installation(port=4002, D="f")))
            assert run(["local", "--env"]) == ExitCode.MISCONFIGURED
            assert run(["--local=4002", "local", "--env"]) == 0
            assert capsys.readouterr().out == "export D=f\n"
            assert run(["--local=4002", "local"]) == ExitCode.FAILED
            assert "this one starts one" in capsys.readouterr().err

    def test_an_endpoint_beside_it_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--local", "--endpoint", "http://127.0.0.1:1", "schedules", "list"]) == ExitCode.FAILED
        assert "does not go with --local" in capsys.readouterr().err
