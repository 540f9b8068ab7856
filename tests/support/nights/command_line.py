"""The command line over a night's installation, at its time: what an operator types on a machine with credentials."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from typing import Any, cast

import pytest
from quarterjack import Scheduler, Tenants
from quarterjack.cli.app import run
from quarterjack.cli.shell import Shell, console
from quarterjack.doctor import run_checks
from quarterjack.doctor.context import ProbeAnswer
from quarterjack.stores.agenda import CONFIG
from quarterjack.testing.memory.queues import MemoryQueue

from tests.support.command_line import Said
from tests.support.nights.night import PREFIX, Night

_REFUSED = ProbeAnswer(action="", code="NotHere", text="an installation in memory has no such service")


class NightProbe:
    """What the doctor asks AWS for: tables and queues of the night. Everything else is refused, which the doctor says."""

    def __init__(self, night: Night) -> None:
        self._night = night
        self.skews = [(0, 0)]
        self.region = "eu-west-1"

    def call(self, service: str, operation: str, /, **arguments: Any) -> ProbeAnswer:
        """One call, as far as tables and queues can answer it."""
        answer = getattr(self, f"_{service}_{operation}", None)
        return _REFUSED if answer is None else ProbeAnswer(action="", data=answer(arguments))

    def metric(
        self, namespace: str, name: str, dimension: tuple[str, str], statistic: str, window: timedelta
    ) -> list[dict[str, Any]]:
        """None: the doctor goes on without."""
        del namespace, name, dimension, statistic, window
        return []

    def _dynamodb_get_item(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if given["Key"].get("entry", {}).get("S") == CONFIG["entry"]:
            return {"Item": {"shards": {"N": str(self._night.memory.connect().agenda.layout(fresh=True).shards)}}}
        return {}

    def _sts_get_caller_identity(self, given: Mapping[str, Any]) -> dict[str, Any]:
        del given
        return {"Arn": "arn:aws:iam::123456789012:user/operator"}

    def _sqs_list_queues(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"QueueUrls": [name for name in self._queues() if name.startswith(given["QueueNamePrefix"])]}

    def _sqs_get_queue_url(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"QueueUrl": given["QueueName"]}

    def _sqs_get_queue_attributes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        load = self._queues()[given["QueueUrl"]].load()
        counts = {"": load.waiting, "NotVisible": load.at_hand, "Delayed": load.delayed}
        target = f'{{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:123456789012:{PREFIX}-dead"}}'
        messages = {f"ApproximateNumberOfMessages{which}": str(number) for which, number in counts.items()}
        return {"Attributes": messages | {"RedrivePolicy": target}}

    def _queues(self) -> dict[str, MemoryQueue]:
        memory = self._night.memory
        work = {f"{PREFIX}-work{'-' + of if of else ''}": found for of, found in memory.queues.items()}
        return {**work, f"{PREFIX}-dead": memory.dead}


class NightShell:
    """Runs commands against a night."""

    def __init__(self, night: Night) -> None:
        self._night = night

    def say(self, *words: str) -> Said:
        """One command: how it ended."""
        out, err = io.StringIO(), io.StringIO()
        with self._over_the_night(), redirect_stdout(out), redirect_stderr(err):
            code = run(words)
        return Said(int(code), out.getvalue(), err.getvalue())

    @contextmanager
    def _over_the_night(self) -> Iterator[None]:
        night = self._night
        services = night.process("owner")
        given: dict[str, Any] = {"via": "cli", "services": services, "clock": night.clock}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("QUARTERJACK_TENANT", "acme")
            patch.setenv("COLUMNS", "200")
            patch.setattr(
                Shell,
                "scheduler",
                property(
                    lambda shell: Scheduler(settings=shell.settings, jobs=night.jobs, **given).acting_as(
                        reason=shell.reason
                    )
                ),
            )
            patch.setattr(
                Shell,
                "tenants",
                property(lambda shell: Tenants(settings=shell.settings, **given).acting_as(reason=shell.reason)),
            )
            patch.setattr("quarterjack.cli.typed.utc_now", night.clock.now)
            patch.setattr("quarterjack.daemon.roles.connect", lambda settings: services)
            patch.setattr("quarterjack.doctor.context.connect", lambda settings: services)
            patch.setitem(cast("dict[str, Any]", run_checks.__kwdefaults__), "clock", night.clock)
            patch.setattr("quarterjack.doctor.checks.AwsProbe", lambda settings, clock: NightProbe(night))
            console.cache_clear()
            try:
                yield
            finally:
                console.cache_clear()
