"""The named scenarios of unique keys, batches and links that answer, with every call a crash point."""

from __future__ import annotations

from quarterjack import Context, Retry, Submission
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.sdk.waits.links import use_link

from tests.support.histories.crash_points import Scenario, Scene
from tests.support.histories.scenarios import Step, in_the_middle, submit, wait, work
from tests.support.histories.waiting_scenarios import answered_as_told, waiting_jobs

_RUN, _AFTER = "acme/~only#once", "acme/~all#once"
# The run after a batch waits for a repeated call; two of three may crash.
_ITEMS = [Submission("item", 1), Submission("item", 2), Submission("item", 3, delay=20.0)]


def keyed_jobs(scene: Scene) -> None:
    """A job of which one run at a time may be unfinished, and those of a batch."""
    jobs, often = scene.world.jobs, Retry(max_attempts=20, base=1.0)

    @jobs.job("alone", retry=often)
    def alone(ctx: Context, payload: object) -> object:
        running = [run for run in _runs(scene, "alone") if run.state is RunState.RUNNING]
        scene.unfinished = max(scene.unfinished, len(running))
        return payload

    @jobs.job("item", retry=often)
    def item(ctx: Context, payload: object) -> object:
        return payload

    @jobs.job("after", retry=often)
    def after(ctx: Context, payload: object) -> object:
        return payload


def _runs(scene: Scene, job: str) -> list[RunRow]:
    return [run for run in scene.world.memory.runs() if run.job == job]


# Unique keys.


def keyed(payload: int, **how: str) -> Step:
    def step(scene: Scene) -> None:
        scene.told = scene.owner().submit("alone", payload, unique="k", **how).payload  # type: ignore[arg-type]

    return step


def one_at_a_time(scene: Scene) -> list[str]:
    """One run of the key at a time has begun, all have ended, and the last payload that was accepted has run, or a later one.

    A call that crashed may have put its payload in the place of the one before.
    """
    runs = _runs(scene, "alone")
    found = [f"{run.ref} is {run.state}" for run in runs if run.state is not RunState.SUCCEEDED]
    if scene.unfinished > 1:
        found.append(f"{scene.unfinished} at a time")
    if isinstance(scene.told, int) and not any(int(run.result or 0) >= scene.told for run in runs):
        found.append(f"payload {scene.told} was accepted, and did not run")
    return found


# Batches.


def submit_batch(scene: Scene) -> None:
    done = scene.owner().submit_all(_ITEMS, idempotency_key="all", on_end="after")
    if not done.refused:
        scene.told = done.on_end


def over_once(scene: Scene) -> list[str]:
    """A batch that was accepted, or is submitted again, has each item once, and the run after it once, with their number."""
    if scene.told is None:
        submit_batch(scene)
        scene.world.live(600)
    items, after = _runs(scene, "item"), _runs(scene, "after")
    found = [f"{run.ref} is {run.state}" for run in (*items, *after) if run.state is not RunState.SUCCEEDED]
    if (len(items), len(after)) != (3, 1):
        return [*found, f"{len(items)} items, {len(after)} runs after them"]
    counted = '"succeeded":3' in (after[0].result or "").replace(" ", "")
    return found if counted else [*found, f"counts {after[0].result}"]


# Links.


def make_link(scene: Scene) -> None:
    link = scene.world.owner().signal_link(_RUN, "go", "yes", to="ada", base="https://jobs.example.com")
    scene.link = link.id, link.url.rpartition("/")[2]


def use(scene: Scene) -> None:
    if scene.link is not None and use_link(scene.owner().session, _RUN, scene.link[1]).is_mine:
        scene.told = "yes"


def revoke(scene: Scene) -> None:
    """Once it has returned, the run has the answer that it has then, or times out."""
    if scene.link is None:
        return
    scene.owner().revoke_link(_RUN, scene.link[0])
    if scene.told is None and scene.world.services.waits.signal(parse_run_id(_RUN), "go") is None:
        scene.told = "late"


KEYED_SCENARIOS = (
    Scenario("a key", [keyed_jobs, keyed(1), keyed(2), work, keyed(3), work], one_at_a_time),
    Scenario("a follower", [keyed_jobs, keyed(1), keyed(2, on_duplicate="after"), work, work], one_at_a_time),
    Scenario(
        "a follower that is put while the first ends",
        [keyed_jobs, keyed(1), in_the_middle("submit_unique", work), keyed(2, on_duplicate="after"), work, work],
        one_at_a_time,
    ),
    Scenario(
        "a follower that is replaced while the first ends",
        [
            *(keyed_jobs, keyed(1), keyed(2, on_duplicate="after")),
            *(in_the_middle("resubmit", work), keyed(3, on_duplicate="after"), work, work),
        ],
        one_at_a_time,
    ),
    Scenario("a batch", [keyed_jobs, *[submit_batch] * 3, work, work, wait(21), work, work], over_once),
    Scenario(
        "a batch whose items end while it is submitted",
        [keyed_jobs, in_the_middle("mark_items", work), *[submit_batch] * 3, work, wait(21), work, work],
        over_once,
    ),
    Scenario("an answer by a link", [waiting_jobs, submit("asks"), work, make_link, use, work], answered_as_told),
    Scenario(
        "a link that is revoked while it is used",
        [waiting_jobs, submit("asks"), work, make_link, in_the_middle("put_signal", revoke), use, work],
        answered_as_told,
    ),
)
