"""Shell examples name targets, commands, options and context that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.aws_command_line import check_aws
from tests.support.doc_pages import ROOT, all_pages
from tests.support.parsed_commands import check_quarterjack

# What else a reader is asked to type; whoever adds to it has looked at it.
_OTHERS = frozenset(
    {".", "cd", "export", "git", "pgrep", "pip", "python", ".venv/bin/python", "docker", "kubectl", "mkdir"}
    | {"crontab", "django-admin", "eval", "uvicorn", "sudo", "chronyc", "xargs", "awk"}
)
_CDK_FLAGS = frozenset({"--import-existing-resources"})
_TOOLS = frozenset({"make", "quarterjack", "cdk", "aws"})

lines = [pytest.param(line, id=f"{one.name}: {line[:60]}") for one in all_pages() for line in one.shell_lines()]


@pytest.mark.parametrize("line", lines)
def test_a_shell_example_could_be_typed_in(line: str) -> None:
    for command in re.split(r"\s*(?:&&|\|)\s*", line):
        words = shlex.split(command)
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words.pop(0)  # variables for one command
        tool = words[0].removeprefix(".venv/bin/")
        assert tool in _TOOLS or words[0] in _OTHERS, f"{words[0]}: nothing checks this command"
        if tool in _TOOLS:
            _CHECKS[tool](words[1:])


def check_make(words: list[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for word in words:
        assert re.fullmatch(r"[A-Z]+=\S+", word) or word in targets, f"make {word}: there is no such target"


def check_cdk(words: list[str]) -> None:
    from infra.app import KNOBS, PROTECTED

    verb, *options = (word for word in words if word not in _CDK_FLAGS)
    assert verb in ("bootstrap", "deploy", "destroy", "diff", "synth")
    for flag, value in zip(options[::2], options[1::2], strict=True):
        assert flag in ("-c", "--context")
        assert value.partition("=")[0] in (*KNOBS, PROTECTED, "stack"), f"{value}: there is no such context"


_CHECKS = {"make": check_make, "quarterjack": check_quarterjack, "cdk": check_cdk, "aws": check_aws}


@pytest.mark.parametrize(
    "wrong",
    [
        "lambda get-functions",
        "lambda get-function-concurrency",
        "lambda get-function-concurrency --function-name f --functions g",
        "logs tail g --sinse 1h",
        "scheduler list-schedules --state OFF",
        "dynamodb update-table --table-name t --on-demand-throughput Writes=-1",
        "lamda get-function --function-name f",
    ],
)
def test_a_wrong_command_of_aws_is_found(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check_aws(shlex.split(wrong))


def test_the_makefile_says_what_each_target_is_for() -> None:
    text = Path(ROOT, "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)", text, re.MULTILINE))
    assert phony == set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
