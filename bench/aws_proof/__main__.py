"""``make aws-proof``: deploy under a prefix of its own, try and measure everything, print one report, remove everything.

    make aws-proof ENDPOINT=local              on an embedded cloud of its own, without an account
    make aws-proof YES=yes                     on AWS, with this shell's credentials: use a throw-away account
    make aws-proof YES=yes RATE=10000          the same, then a ramp to so many fires a second
    make aws-proof YES=yes REMOVE=proof-1a2b3c remove what a proof that was killed has left

It costs money on AWS: the cost is shown first, and without YES=yes it asks. Progress is on stderr; the report is on stdout and in
``build/aws-proof/``. Exits with 1 if a part is broken or something is left behind, with 2 if it was not begun.
"""

from __future__ import annotations

import argparse
import platform
import re
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from quarterjack.errors import Misconfigured
from quarterjack.version import VERSION

from bench.aws_proof import acceptance, alarms, cost, faults, nobody_receives, ramp
from bench.aws_proof.alarms import Listener
from bench.aws_proof.cloud import AWS, Cloud, Names, cloud_at
from bench.aws_proof.deployment import Deployment, deploy
from bench.aws_proof.leftovers import Left
from bench.aws_proof.parts import Part, prepared, proved, tell
from bench.aws_proof.plan import Plan, here, on_aws, table
from bench.aws_proof.removal import commands, remove
from bench.aws_proof.report import Finding, Verdict, page
from bench.progress import say
from tests.support.arguments import number

PLACE = Path("build/aws-proof")
_PREFIX = re.compile(r"proof-([0-9a-f]{6})")
_REFUSED, _BROKEN = 2, 1
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last one: the terminal was closed


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    try:
        with cloud_at(given.endpoint) as cloud:
            return _removed_only(cloud, given) if given.remove else _proved(cloud, given)
    except Misconfigured as problem:
        say(str(problem))
        return _REFUSED


def _removed_only(cloud: Cloud, given: argparse.Namespace) -> int:
    if not _may(cloud, given, f"remove {given.remove}"):
        return _REFUSED
    return _BROKEN if _remove(cloud, Names(given.remove.removeprefix("proof-"))) else 0


def _proved(cloud: Cloud, given: argparse.Namespace) -> int:
    plan, names = (on_aws if cloud.is_aws else here)(given.rate), Names(secrets.token_hex(3))
    say(f"{plan.runs:,} runs; what AWS charges for them, before tax:\n{table(plan)}")
    if not _may(cloud, given, f"deploy {names.prefix}"):
        return _REFUSED
    if cloud.is_aws:
        say(f"if this is killed with -9, remove it by: make aws-proof YES=yes REMOVE={names.prefix}")
    found, problem = list[Finding](), ""
    try:
        for finding in prove(cloud, names, plan):
            say(f"{finding.part}: {finding.says}")
            found.append(finding)
    except KeyboardInterrupt:
        problem = "interrupted"
    except Exception as error:  # noqa: BLE001 (any failure: everything is removed, and the report says why)
        tell(error)
        problem = f"{type(error).__name__}: {error}"
    finally:
        left = _remove(cloud, names)
    return report(cloud, names, found, left, problem)


def prove(cloud: Cloud, names: Names, plan: Plan) -> Iterator[Finding]:
    """Deploy, then one part after the other. An error of the deployment ends the proof, one of a part that part."""
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="quarterjack-proof-") as folder:
        say(f"deploying stack {names.stack}")
        deployment = deploy(cloud, names, plan, Path(folder))
    listener = Listener(deployment=deployment)
    prepared("listening to alarms", listener.listen)
    prepared("submitting the first runs", lambda: acceptance.begin(deployment))
    yield from proved(parts(deployment, listener, plan, began))


def parts(deployment: Deployment, listener: Listener, plan: Plan, began: datetime) -> list[Part]:
    """The proof, in its order."""
    names_of_fires = [f"fires, {start}" for start in (acceptance.PROMPT, acceptance.EXACT)]
    return [
        Part(findings=["pause"], prove=lambda: [acceptance.pause(deployment, plan)]),
        Part(findings=names_of_fires, prove=lambda: acceptance.fires(deployment, plan)),
        Part(findings=[acceptance.WORKER_KILLED], prove=lambda: [acceptance.killed(deployment, plan)]),
        Part(findings=[f"fires, {faults.THROTTLED}"], prove=lambda: [faults.throttled_table(deployment, plan)]),
        Part(findings=[f"fires, {faults.CUT}"], prove=lambda: [faults.queue_outage(deployment, plan)]),
        Part(findings=[ramp.PART], prove=lambda: [ramp.ramp(deployment, plan)]),
        Part(findings=[nobody_receives.PART], prove=lambda: [nobody_receives.nobody_receives(listener, plan)]),
        Part(findings=[alarms.PART], prove=lambda: [alarms.arrived(listener, plan)]),
        Part(findings=[cost.PART], prove=lambda: [cost.counted(deployment, since=began, runs=plan.runs)]),
    ]


def report(cloud: Cloud, names: Names, found: Sequence[Finding], left: Sequence[Left], problem: str) -> int:
    """Print it and keep it; returns the exit code."""
    where = f"AWS, {cloud.region}" if cloud.is_aws else "an embedded cloud on this machine: no figure of AWS"
    about = {
        "where": where,
        "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Quarterjack": f"{VERSION}, driven by Python {platform.python_version()}",
        "ended": problem or "normally",
        "left behind": "; ".join(map(str, left))
        or "nothing: stacks, tables, queues, functions, logs, buckets, roles and alarms are gone",
    }
    text = page(
        "Proof on AWS" if cloud.is_aws else "Proof on a local cloud", about, found, commands(cloud, names, left)
    )
    PLACE.mkdir(parents=True, exist_ok=True)
    kept = PLACE / f"{names.prefix}.md"
    kept.write_text(text)
    with suppress(OSError):
        sys.stdout.write(text)
        say(f"the report is in {kept}")
    broken = problem or left or not found or any(one.verdict in (Verdict.BROKEN, Verdict.UNFINISHED) for one in found)
    return _BROKEN if broken else 0


def _remove(cloud: Cloud, names: Names) -> list[Left]:
    with _undisturbed():
        left = remove(cloud, names, say)
        with suppress(OSError):  # the terminal may have been closed
            say("\n".join([f"left behind: {'; '.join(map(str, left)) or 'nothing'}", *commands(cloud, names, left)]))
    return left


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A Ctrl-C during the removal is answered, not obeyed."""

    def answer(*_: object) -> None:
        say("removing: this takes some minutes, and what is interrupted now would stay and cost")

    before = {one: signal.signal(one, answer) for one in _ENDS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _may(cloud: Cloud, given: argparse.Namespace, what: str, *, ask: Callable[[str], str] = input) -> bool:
    """Whether somebody has said yes. Nobody needs to on an embedded cloud."""
    if not cloud.is_aws or given.yes == "yes":
        return True
    say(f"this would {what} in account {cloud.account}, region {cloud.region}")
    if given.yes or not sys.stdin.isatty():
        say(f"YES={given.yes!r}: is not yes; read the cost above, then say make aws-proof YES=yes")
        return False
    return ask("Go on? Type yes: ").strip() == "yes"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make aws-proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--endpoint", default=AWS, help="aws or local")
    parser.add_argument("--rate", type=number, help="fires a second at the end of a ramp")
    parser.add_argument("--yes", default="", help="yes: the cost is accepted")
    parser.add_argument("--remove", type=_prefix, help="remove this prefix and do nothing else")
    return parser.parse_args(arguments)


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no prefix of a proof; give one such as proof-1a2b3c")
    return text


if __name__ == "__main__":
    for one in _ENDS:  # also where the shell that started it ignores Ctrl-C
        signal.signal(one, signal.default_int_handler)
    began = time.monotonic()
    code = main()
    say(f"after {time.monotonic() - began:.0f} s")
    sys.exit(code)
