"""Mutants: deliberate breakages of the protocol, each of which the proof must notice.

python -m tests.support.mutants [NAME …] [--workers 2] [--near] [--rooms 5] [--most 60]

With ``--near`` the folder of tests nearest to the code must notice it alone; ``--rooms 5`` takes five of each room, ``--most 60``
so many of all, others every day.

Each is applied to a copy of the tree and the proof is run against it until something fails. A mutant that survives is a missing test.
The last line is ``mutants=… killed=…``; the exit code is 1 if any survived, 2 if one does not apply any more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from tests.support.arguments import number
from tests.support.breaker_mutants import BREAKER_MUTANTS
from tests.support.flow_mutants import FLOW_MUTANTS
from tests.support.grant_mutants import GRANT_MUTANTS
from tests.support.history_mutants import HISTORY_MUTANTS
from tests.support.lane_mutants import LANE_MUTANTS
from tests.support.limit_mutants import LIMIT_MUTANTS, QUOTA_MUTANTS
from tests.support.map_mutants import MAP_MUTANTS
from tests.support.move_mutants import MOVE_MUTANTS
from tests.support.parts import TURN
from tests.support.permit_mutants import PERMIT_MUTANTS
from tests.support.pipeline_mutants import PIPELINE_MUTANTS
from tests.support.place_mutants import PLACE_MUTANTS
from tests.support.restore_mutants import RESTORE_MUTANTS
from tests.support.room_mutants import ROOM_MUTANTS
from tests.support.schema_mutants import SCHEMA_MUTANTS
from tests.support.tenant_mutants import TENANT_MUTANTS
from tests.support.version_mutants import VERSION_MUTANTS
from tests.support.wait_mutants import BATCH_MUTANTS, CHILD_MUTANTS, LINK_MUTANTS, UNIQUE_MUTANTS, WAIT_MUTANTS
from tests.support.why_mutants import WHY_MUTANTS
from tests.support.worker_mutants import WORKER_MUTANTS

ROOT = Path(__file__).parents[2]
PACKAGE = "shared/quarterjack"
COPIED = ("shared", "tests", "functions", "infra", "examples", "bench", "pyproject.toml")
PROOF = (
    "tests/unit/owner/schedules/test_changes.py",  # races and failures told step by step: quick, and histories meet some of them seldom
    "tests/unit/ticker/test_tick.py",
    "tests/unit/worker/test_worker.py",
    "tests/proof/test_crash_points.py",
    "tests/unit/flow/test_interleaving.py",
    "tests/proof/test_simulator.py",
)
WAITS = (
    "tests/unit/ticker/test_run_timers.py",
    "tests/unit/worker/test_waits.py",
    "tests/unit/worker/test_replayed_waits.py",
    "tests/unit/worker/test_orphans.py",
    "tests/unit/sdk/test_callbacks.py",
    "tests/unit/state",
    "tests/proof/test_crash_points.py",
    "tests/proof/test_parked.py",
)
CHILDREN = ("tests/unit/worker/test_child_terms.py", "tests/unit/worker/test_waits.py")
LINKS = ("tests/unit/owner/runs/test_links.py",)
UNIQUE = ("tests/unit/owner/runs/test_unique.py", "tests/unit/state/test_transitions.py", "tests/proof/test_parked.py")
BATCHES = ("tests/unit/owner/runs/test_batch.py", "tests/proof/test_parked.py")
PIPELINES = (
    "tests/unit/state/test_pipeline_decisions.py",
    "tests/unit/fires/test_pipeline_advance.py",
    "tests/unit/worker/admission/test_withdrawn_tasks.py",
    "tests/unit/owner/runs/test_cancelled_pipelines.py",
    "tests/unit/flow/test_pipelines.py",
    "tests/unit/flow/test_pipeline_costs.py",
    "tests/proof/test_pipeline_histories.py",
)
VERSIONS = (
    "tests/unit/owner/test_app_versions.py",
    "tests/unit/worker/admission/test_app_versions.py",
    "tests/unit/history/test_stats.py",
    "tests/unit/doctor/test_checks.py::test_runs_that_wait_for_a_version_without_workers",
)
MOVES = ("tests/unit/moving",)
RESTORES = ("tests/unit/restore", "tests/unit/cli/test_restore.py")
MAPS = ("tests/unit/worker/test_maps.py", "tests/proof/test_crash_points.py", "tests/proof/test_parked.py")
DECISIONS = (
    "tests/unit/state",
    "tests/unit/owner/schedules/test_changes.py",
)  # what takes a stall, a throttle and a race at once to show
WORKERS = ("tests/unit/worker/test_worker.py", "tests/unit/state")
PRESSURE = ("tests/unit/sqs/test_pressure.py", "tests/proof/test_simulator.py")
CONTRACT = (
    "tests/contract/test_batch_failures.py",
    "tests/contract/test_stripes.py",
)  # what the drivers make of AWS's answers
POLICIES = ("tests/unit/state/test_decisions.py", "tests/unit/worker/execution/test_perform.py")
STATUS = ("tests/unit/worker/execution/test_http_status.py", "tests/unit/worker/execution/test_perform.py")
NOTIFIERS = ("tests/unit/ready_jobs/http/test_notifiers.py",)
AUTOMATIC = ("tests/unit/fires/test_automatic_backfill.py",)
INCIDENTS = ("tests/unit/undertaker",)
MIDDLEWARE = ("tests/unit/worker/execution/test_middleware.py", "tests/unit/isolation/test_isolated_jobs.py")
BACKFILL = tuple(f"tests/unit/owner/backfill/test_{name}.py" for name in ("window", "backfill", "crashes"))
REQUEUED = ("tests/unit/state/test_transitions.py", "tests/unit/owner/runs/test_requeue.py")
MOVED = ("tests/unit/owner/runs/test_reschedule.py", "tests/proof/test_moved.py")
TRANSACTIONS = ("tests/unit/worker/execution/test_transactions.py", "tests/contract/test_transactions.py")
DECLARED = ("tests/unit/daemon/test_declarations.py",)
PLACES = (
    "tests/unit/domain/test_agenda_layout.py",
    "tests/unit/owner/test_placed_tenants.py",
    "tests/unit/sdk/tenants/test_tiers.py",
    "tests/unit/sqs/test_message_groups.py",
)
REGISTRY = (
    "tests/unit/worker/admission/test_suspended.py",
    "tests/unit/stores/test_profiles.py",
    "tests/unit/sdk/tenants",
    "tests/unit/domain/test_suspension.py",
    "tests/unit/sqs/test_pressure.py",
    "tests/unit/why/test_verdicts.py",
)
LIMITS = (
    "tests/unit/owner/test_limits.py",
    "tests/unit/owner/test_rates.py",
    "tests/unit/owner/schedules/test_arm.py",
    "tests/unit/web/test_operators.py",
)
QUOTAS = ("tests/unit/owner/test_quotas.py",)
BREAKERS = (
    "tests/unit/state/test_breaker.py",
    "tests/unit/worker/admission/test_breakers_told.py",
    "tests/unit/worker/admission/test_breakers.py",
)
LANES = (
    "tests/unit/domain/test_lanes.py",
    "tests/unit/daemon/test_lane_shares.py",
    "tests/unit/owner/test_priorities.py",
    "tests/unit/sqs/test_pressure_lanes.py",
    "tests/unit/daemon/test_worker_lanes.py",
    "tests/unit/worker/delivery/test_aged_runs.py",
    "tests/unit/ticker/test_urgent_first.py",
    "tests/unit/signals/test_worker_figures.py",
    "tests/unit/sdk/test_health.py",
    "tests/contract/test_lanes.py",
)
SLOTS = (
    "tests/unit/state/test_permits.py",
    "tests/unit/worker/admission/test_concurrency.py",
    "tests/unit/fires/test_wait_queue.py",
)
FLOWS = (
    "tests/unit/state/test_permits.py",
    "tests/unit/worker/admission/test_flow.py",
    "tests/unit/worker/admission/test_frozen_parts.py",
    "tests/unit/worker/admission/test_flow_crashes.py",
)
FORGED = ("tests/unit/worker/admission/test_forged_messages.py",)
AHEAD = ("tests/unit/worker/test_ahead.py",)
GRANTED = ("tests/unit/worker/admission/test_granted.py", "tests/unit/sdk/test_granted_jobs.py")
HISTORY = (
    "tests/unit/history/test_entries.py",  # what takes a batch that ends between two writes of one millisecond
    "tests/unit/historian/test_archive.py",
    "tests/unit/sdk/test_list_runs.py",
    "tests/unit/sdk/test_rebuild_history.py",
    "tests/proof/test_recorded.py",
)
FEED = ("tests/unit/historian/test_deliver.py", "tests/unit/historian/test_follow.py")
RECORDS = (
    "tests/unit/daemon/test_worker_record.py",
    "tests/unit/sdk/test_workers.py",
    "tests/unit/sdk/test_run_views.py",
    "tests/unit/owner/test_catalogue.py",
    "tests/unit/sdk/test_known_jobs.py",
)
WHY = ("tests/unit/why", "tests/unit/timing/test_absence.py", "tests/proof/test_why.py")
VIEWS = ("tests/unit/sdk/test_describe.py", "tests/proof/test_described.py")
PATIENCE = 600  # seconds for one mutant


@dataclass(frozen=True)
class Mutant:
    """One breakage: in a file, this text becomes that."""

    name: str
    file: str  # below the package
    old: str
    new: str
    killers: Sequence[str] = PROOF


# Rooms whose tests have another folder than tests/unit under the room's name.
NEAR = {
    "dynamodb": ("tests/unit/dynamodb", "tests/contract", "-k", "not dynamodb_local"),  # it is in no copy of the tree
}


def room_of(file: str) -> str:
    """The folder of the package that a file is in, or the module that it is."""
    return file.partition("/")[0].removesuffix(".py")


def near(file: str) -> Sequence[str]:
    """The folder of tests nearest to a file of the package, as arguments of pytest."""
    room = room_of(file)
    return NEAR.get(room, (f"tests/unit/{room}",) if "/" in file else (f"tests/unit/test_{room}.py",))


def sample(mutants: Sequence[Mutant], most: int, turn: int) -> list[Mutant]:
    """At most so many of each room, those of the next turn where this one's end."""
    rooms = defaultdict[str, list[Mutant]](list)
    for mutant in mutants:
        rooms[room_of(mutant.file)].append(mutant)
    return [
        of_room[(turn * most + number) % len(of_room)]
        for of_room in rooms.values()
        for number in range(min(most, len(of_room)))
    ]


_LEASE = "guard = all_of(same_revision(revision), of_backfill(backfill), due(now), NOT_CANCELLED, untouched, startable)"

MUTANTS = (
    # The lease: drop any one clause.
    Mutant("lease of any revision", "state/lease.py", _LEASE, _LEASE.replace("same_revision(revision), ", "")),
    Mutant("lease of any backfill", "state/lease.py", _LEASE, _LEASE.replace("of_backfill(backfill), ", ""), FORGED),
    Mutant(
        "whoever was in line has a message as soon as it runs",
        "worker/admission/turns.py",
        "    alone += [pair for pair in running if not has_live_lease(there[pair], clock())]\n",
        "",
        ("tests/unit/worker/admission/test_overlap.py",),
    ),
    Mutant(
        "a payload of any tenant",
        "state/run_spec.py",
        "if self.payload_ref is not None and not is_in_folder_of(self.payload_ref, run.tenant):",
        "if False:",
        FORGED,
    ),
    Mutant(
        "a rejected message is the verdict on the run that it names",
        "undertaker/bury.py",
        "if run is None or (letter is not None and letter.state == REJECTED):",
        "if run is None:",
        FORGED,
    ),
    Mutant(
        "an unreadable message is the end of its run",
        "undertaker/bury.py",
        "if not send([own], context.services.work, context.clock)[0]:",
        "if False:",
        FORGED,
    ),
    Mutant(
        "a message says how long its run has waited for a worker that knows its job",
        "worker/admission/admit.py",
        "since = max(since, run.created_at, run.not_before)",
        "pass",
        FORGED,
    ),
    Mutant(
        "a message of no run ends others",
        "worker/admission/overlap.py",
        "case TurnAnswer.CANCEL | TurnAnswer.TERMINATE if not _is_open(asking):",
        "case TurnAnswer.CANCEL | TurnAnswer.TERMINATE if False:",
        FORGED,
    ),
    Mutant(
        "a message far ahead of its row's time is kept for its own time",
        "worker/admission/refused.py",
        "        return _much_too_early(worker, ready)",
        "        pass",
        FORGED,
    ),
    Mutant("lease before its time", "state/lease.py", _LEASE, _LEASE.replace("due(now), ", "")),
    Mutant(
        "lease of a cancelled run",
        "state/lease.py",
        _LEASE,
        _LEASE.replace("NOT_CANCELLED, ", ""),
        WORKERS,
    ),
    Mutant(
        "lease beyond the last attempt",
        "state/lease.py",
        'if first else all_of(Compare("attempt", "<", max_attempts), of_epoch(seen_fence))',
        "if first else of_epoch(seen_fence)",
        WORKERS,  # a worker looks before it takes what another had, so this clause decides in races only
    ),
    Mutant("lease of what has ended", "state/lease.py", _LEASE, _LEASE.replace(", startable", "")),
    Mutant(
        "lease under a live lease",
        "state/lease.py",
        "any_of(READY, abandoned(now)) if steal",
        'any_of(READY, Compare("state", "=", RunState.RUNNING)) if steal',
        WORKERS,  # likewise
    ),
    Mutant(
        "at most once is stolen",
        "state/lease.py",
        "any_of(READY, abandoned(now)) if steal else READY",
        "any_of(READY, abandoned(now))",
        WORKERS,
    ),
    Mutant(
        "a batch leases what others had",
        "state/lease.py",
        """    startable = NEVER_LEASED if first else any_of(READY, abandoned(now)) if steal else READY
    untouched = _NEVER_FENCED if first else all_of(Compare("attempt", "<", max_attempts), of_epoch(seen_fence))
""",
        """    startable = Compare("fence", ">=", 0) if first else any_of(READY, abandoned(now)) if steal else READY
    untouched = Compare("fence", ">=", 0) if first else all_of(Compare("attempt", "<", max_attempts), of_epoch(seen_fence))
""",
    ),
    Mutant(
        "nothing is stolen",
        "state/lease.py",
        "any_of(READY, abandoned(now)) if steal",
        "READY if steal",
    ),
    Mutant("a fence that does not grow", "state/lease.py", '"fence": Plus(1),', '"fence": Plus(0),'),
    # Settling.
    Mutant(
        "settle without the fence",
        "state/transition.py",
        "    return all_of(RUNNING, same_fence(fence))",
        '    return Absent("ttl")',
    ),
    Mutant(
        "delete the message before settling",
        "worker/execution/settle.py",
        "    moved = _move(worker, leased, settlement.transition)\n",
        "    worker.deletions.add(leased.in_flight.receipt)\n    moved = _move(worker, leased, settlement.transition)\n",
    ),
    Mutant(
        "a batch deletes before it settles",
        "worker/execution/settle.py",
        "    answers: Mapping[RunRef, bool] = {}\n",
        "    worker.deletions.add(*(leased.in_flight.receipt for leased, _ in ended))\n    answers: Mapping[RunRef, bool] = {}\n",
    ),
    Mutant(
        "a refused lease of a batch begins",
        "worker/admission/lease.py",
        "    if not moved.applied:\n        ready.in_flight.leased_until = 0\n",
        "    if moved.run is None and not moved.applied:\n        ready.in_flight.leased_until = 0\n",
    ),
    Mutant(
        "no order for the next attempt",
        "worker/delivery/receive.py",
        "accepted = _send(worker, order, outcome.at)",
        "accepted = True",
    ),
    Mutant(
        "dead without a verdict",
        "worker/execution/failed.py",
        "        worker.send_dead_letter(leased.received.delivery.body, leased.run.fence, reason, failure)\n",
        "        del reason\n",
    ),
    Mutant(
        "a success that nobody is told of",
        "worker/after_end.py",
        "_advance_backfill, _report_success, _count_attempt,",
        "_advance_backfill, _count_attempt,",
        INCIDENTS,
    ),
    # Refusing and taking over.
    Mutant(
        "supersede a run that was leased",
        "state/before_start.py",
        "all_of(NEVER_LEASED, up_to_revision(revision)), more=",
        "all_of(any_of(READY, in_state(RunState.RUNNING)), up_to_revision(revision)), more=",
    ),
    Mutant(
        "take over what runs",
        "state/before_start.py",
        "guard=all_of(of_other, waiting),",
        'guard=all_of(of_other, Compare("fence", ">=", 0)),',
        killers=DECISIONS,
    ),
    Mutant(
        "take nothing over",
        "state/refusal.py",
        "return OnExisting.TAKE_OVER if run.revision <= revision and revivable else OnExisting.LEAVE",
        "return OnExisting.LEAVE",
    ),
    Mutant(
        "send nothing again",
        "state/refusal.py",
        "return OnExisting.SEND if run.state is RunState.QUEUED else OnExisting.LEAVE",
        "return OnExisting.LEAVE",
    ),
    Mutant("cancel only in word", "state/ending.py", 'changes={"cancel_requested": True},', "changes={},"),
    Mutant(
        "no sweep after an update",
        "owner/schedules/arm.py",
        "        withdraw(plan.closed, context)\n",
        "        pass\n",
    ),
    Mutant("no sweep after a pause", "owner/schedules/stop.py", "        withdraw(closed, context)\n", ""),
    Mutant(
        "a closed revision starts what is beyond it",
        "state/refusal.py",
        'return Refusal(RunState.SUPERSEDED, "replaced", beyond) if beyond else None',
        "return None",
    ),
    Mutant(
        "arm without the transaction",
        "owner/schedules/arm.py",
        """        return services.schedules.arm(
            plan.head,
            expected=expected,
            previous=plan.closed,
            revision=plan.revision,
            entry=plan.entry,
            expect=plan.expect,
            token=token,
            usage=arming(plan.head.tenant, rule, plan.before, context, is_new=is_new),
            audit=audit,
        )
""",
        """        armed = services.schedules.arm(
            plan.head,
            expected=expected,
            previous=plan.closed,
            revision=plan.revision,
            entry=None,
            expect=plan.expect,
            token=token,
            usage=arming(plan.head.tenant, rule, plan.before, context, is_new=is_new),
            audit=audit,
        )
        services.agenda.put([plan.entry] if armed and plan.entry else [])
        return armed
""",
    ),
    # The chain.
    Mutant(
        "delete before the next entry is put",
        "fires/chain.py",
        "    accepted = context.services.agenda.put(nexts) if nexts else frozenset()",
        "    removed([each.entry for each in planned], context.services)\n"
        "    accepted = context.services.agenda.put(nexts) if nexts else frozenset()",
    ),
    Mutant(
        "delete although the next was not accepted",
        "fires/chain.py",
        "elif following.key in accepted and following.key != each.entry.key:",
        "elif following.key != each.entry.key:",
    ),
    Mutant(
        "delete before its messages are accepted",
        "fires/chain.py",
        "finished = [each for each in planned if all(claim.ref in done for claim in each.claims)]",
        "finished = list(planned)",
    ),
    Mutant(
        "done although not accepted",
        "fires/claim.py",
        "zip(to_send, answered, strict=True) if accepted}",
        "zip(to_send, answered, strict=True)}",
    ),
    Mutant(
        "the next entry forgets a fire",
        "fires/plan.py",
        "        after=after,\n        queue=definition.options.queue,",
        "        after=fire,\n        queue=definition.options.queue,",
    ),
    Mutant(
        "a step beyond its revision",
        "fires/plan.py",
        "near = revision.bound(now + ahead)",
        "near = now + ahead",
    ),
    Mutant(
        "a status decides although retry_on names the error",
        "state/retry.py",
        "        return not any(name in kinds for name in retry.retry_on)\n",
        "        return status is not None or not any(name in kinds for name in retry.retry_on)\n",
        POLICIES,
    ),
    Mutant(
        "a payload that was refused is repeated",
        "state/retry.py",
        "    if invalid or any(",
        "    if any(",
        POLICIES,
    ),
    Mutant(
        "an answer that may pass is permanent",
        "worker/execution/perform.py",
        "    known = None if signal is problem else status",
        "    known = status",
        POLICIES,
    ),
    Mutant(
        "the code of an exit is a status",
        "worker/execution/http_status.py",
        "isinstance(code, HTTPStatus)",
        "isinstance(code, int)",
        STATUS,
    ),
    Mutant(
        "a routing key that is shown",
        "ready_jobs/notifiers.py",
        "return _Message(_json(event), hidden=hidden)",
        "return _Message(_json(event))",
        NOTIFIERS,
    ),
    Mutant(
        "another id at each attempt",
        "ready_jobs/notifiers.py",
        'name = f"evt_{notice.token}"',
        'name = f"evt_{time.time_ns()}"',
        NOTIFIERS,
    ),
    Mutant(
        "without encryption to anywhere",
        "ready_jobs/notifiers.py",
        "        guard = replace(guard, public=False)\n",
        "",
        NOTIFIERS,
    ),
    Mutant(
        "the window skips what automatic_backfill runs",
        "state/catch_up.py",
        "    if options.backfills_missed:\n        return _all_but_the_last(",
        "    if False:\n        return _all_but_the_last(",
        AUTOMATIC,
    ),
    Mutant(
        "a backlog without a bound",
        "state/catch_up.py",
        "skipped = due[: max(len(due) - most, 0)]",
        "skipped = due[:0]",
        AUTOMATIC,
    ),
    Mutant(
        "the auditor skips what automatic_backfill runs",
        "state/catch_up.py",
        "    if options.backfills_missed:\n        return 0\n",
        "",
        AUTOMATIC,
    ),
    Mutant(
        "a chain beyond its revision",
        "fires/plan.py",
        "if fire is None or (revision.active_until is not None and fire > revision.active_until):",
        "if fire is None or revision.active_until is not None:",
    ),
    # A tick that is spread out. What is forgotten or begun too early here comes late, twice or not at all, by chance: tests of their own.
    Mutant(
        "a group that nobody took is forgotten",
        "ticker/fan_out.py",
        "        if not taken:\n            self._left.extend(group)\n",
        "",
        ("tests/unit/ticker/test_fan_out.py",),
    ),
    Mutant(
        "what is due soon waits for its turn",
        "concurrency/rate_limits.py",
        "min(dues) - SOON",
        "max(dues)",
        ("tests/unit/concurrency/test_write_budget.py",),
    ),
    Mutant(
        "a turn outlasts the tick",
        "concurrency/rate_limits.py",
        "latest = min(latest, self._start",
        "latest = max(latest, self._start",
        ("tests/unit/concurrency/test_write_budget.py",),
    ),
    Mutant(
        "the first shards wait the tick's time away",
        "concurrency/rate_limits.py",
        " * self.begun()",
        "",
        ("tests/unit/concurrency/test_write_budget.py",),
    ),
    Mutant(
        "each group has the whole tick's writes",
        "ticker/fan_out.py",
        "each = self._config.writes // (len(groups) + 1)",
        "each = self._config.writes",
        ("tests/unit/concurrency/test_write_budget.py",),
    ),
    Mutant(
        "a stage begins while requests of the last are under way",
        "concurrency/pools.py",
        "            self._changed.wait_for(lambda: not self._helping)\n",
        "            pass\n",
        ("tests/unit/concurrency/test_request_pool.py",),
    ),
    Mutant(
        "a step begins before the window that it ends",
        "fires/plan.py",
        " and end - window < first]",
        "]",
        ("tests/unit/fires/test_plan.py",),
    ),
    Mutant(
        "windows of each process",
        "fires/plan.py",
        "crc32(owner.encode()) * SECOND",
        "hash(owner) * SECOND",
        ("tests/unit/fires/test_plan.py",),
    ),
    # Workers.
    Mutant(
        "no watch",
        "worker/admission/lease.py",
        "watch = _leave_watch(worker, message, token) if ready.is_at_most_once else None",
        "watch = None",
    ),
    Mutant(
        "drop a message whose run is leased",
        "worker/admission/refused.py",
        "return Outcome.kept(answer.why, at=answer.until + SECOND, action=Action.WAITING)",
        "return Outcome.refused(answer.why)",
    ),
    Mutant(
        "no heartbeat for the lease",
        "worker/delivery/visibility.py",
        "        for in_flight in leased:\n            self._renew(in_flight, now)\n",
        "",
    ),
    Mutant(
        "at most once, message last",
        "worker/pipeline.py",
        "            if each.is_at_most_once:\n                delete_before(worker, each.received)\n",
        "",
    ),
    # Submissions.
    Mutant(
        "a run without an entry",
        "owner/runs/submit.py",
        "    if len(services.agenda.put(entries)) < len(entries):",
        "    if False:",
    ),
    Mutant(
        "the entry goes although nothing was sent",
        "owner/runs/submit.py",
        "if send_new([(run, message)], services, clock)[0]:",
        "if send_new([(run, message)], services, clock):",
    ),
    Mutant(
        "a timer that goes unsent",
        "ticker/run_timers.py",
        "    return Handled(may_go=accepted[0], counts=counts + checked)\n",
        "    return Handled(may_go=True, counts=counts + checked)\n",
    ),
    Mutant(
        "timers of a batch that go unsent",
        "ticker/run_timers.py",
        "zip(going, accepted, strict=True) if sent]",
        "zip(going, accepted, strict=True)]",
    ),
    # The historian.
    Mutant("a shard before the one it follows", "historian/follow.py", "or parent.ended)", "or True)", FEED),
    Mutant(
        "a gap that nobody hears of",
        "historian/follow.py",
        "at.at <= oldest < position.caught_up",
        "at.at <= oldest",
        FEED,
    ),
    Mutant(
        "a change that fails leaves no trace",
        "historian/deliver.py",
        "            set_aside(changes[0], _name(consume), problem, context)\n",
        "",
        FEED,
    ),
    Mutant(
        "an outage sets changes aside",
        "historian/deliver.py",
        "    except (Misconfigured, Unavailable):\n        raise\n    except Exception",
        "    except Exception",
        FEED,
    ),
    # Middleware.
    *(
        Mutant(name, "worker/middleware.py", old, new, MIDDLEWARE)
        for name, old, new in (
            ("an error of the job is its middleware's", "if problem is not self._passed:", "if True:"),
            ("a middleware's error is nobody's", "if problem is not self._passed:", "if False:"),
            ("the error of one attempt has the name of another", "self._blamed[0] is not problem", "False"),
            ("a middleware calls the job twice", "if self._phase is not _BEFORE:", "if False:"),
            ("a middleware after the job is before it", "        self._phase = _AFTER\n", "        pass\n"),
            ("two objects of a class are one", "            left.remove(layer)\n", ""),
            ("another process takes what it finds for it", "    if inspect.isfunction(found):\n", "    if found:\n"),
        )
    ),
    Mutant(
        "the middleware of a registry is left out",
        "middlewares.py",
        "else (*around, *job.middleware)",
        "else job.middleware",
        MIDDLEWARE,
    ),
    Mutant(
        "the scheduler's own jobs have middleware",
        "middlewares.py",
        "return () if is_builtin(job.name) else",
        "return",
        MIDDLEWARE,
    ),
    # Incidents.
    Mutant(
        "a dead run is counted apart from its line",
        "undertaker/incidents.py",
        "        change = replace(change, dead=dead, expires=expires)\n",
        "        services.dead_index.put(dead, expires=expires)\n",
        INCIDENTS,
    ),
    Mutant(
        "an incident without its notice",
        "undertaker/incidents.py",
        "        entries.append(_entry(revision, now + len(entries), EntryKind.NOTICE, notice.token))\n",
        "",
        INCIDENTS,
    ),
    Mutant(
        "what came first is not asked",
        "undertaker/incidents.py",
        "ended_at = None if success is None else",
        "ended_at = None and",
        INCIDENTS,
    ),
    Mutant(
        "workers do not know that a schedule fails",
        "undertaker/incidents.py",
        "failing=int(after.incident is not None)",
        "failing=0",
        INCIDENTS,
    ),
    Mutant(
        "no sweep after a pause by failure",
        "undertaker/incidents.py",
        "        withdraw(change.revision, context)\n    return",
        "    return",
        INCIDENTS,
    ),
    Mutant(
        "nobody finishes that sweep",
        "undertaker/incidents.py",
        "            _finish_pause(head, revision, dead, context)\n",
        "",
        INCIDENTS,
    ),
    Mutant(
        "a chain goes on although nobody watches its runs",
        "fires/chain.py",
        "    done = made.done - unwatched\n",
        "    done = made.done\n",
        INCIDENTS,
    ),
    Mutant(
        "a run is overdue before its time",
        "undertaker/overdue.py",
        "if limit is None or limit.at + SKEW > now:",
        "if limit is None:",
        INCIDENTS,
    ),
    Mutant(
        "a run that has ended is overdue",
        "undertaker/overdue.py",
        "revision = None if run.is_terminal else find_revision(",
        "revision = find_revision(",
        INCIDENTS,
    ),
    Mutant(
        "an overdue run is told twice",
        "domain/notice.py",
        'at = "" if self.kind in OF_ONE_RUN else self.at',
        "at = self.at",
        INCIDENTS,
    ),
    Mutant(
        "nobody looks for the end of an overdue run",
        "undertaker/overdue.py",
        "        entries.append(follows)\n",
        "        pass\n",
        INCIDENTS,
    ),
    Mutant(
        "nobody looks for a success",
        "undertaker/success_watch.py",
        "        if is_counted(run) and (run.ended_at or 0) > since:",
        "        if False:",
        INCIDENTS,
    ),
    Mutant(
        "a rate counts from the end of a pause",
        "owner/schedules/begin.py",
        "    return max(now, bound), previous.counts_from\n",
        "    return max(now, bound), None\n",
        ("tests/unit/owner/schedules/test_pauses.py",),
    ),
    Mutant(
        "a resume goes on counting",
        "owner/schedules/arm.py",
        "new if resuming is None else resumed(new)",
        "new",
        INCIDENTS,
    ),
    Mutant(
        "a recovery is told first",
        "ticker/tick.py",
        "entry.kind is not EntryKind.NOTICE)",
        "entry.due)",
        INCIDENTS,
    ),
    Mutant(
        "what is LOST is not reported",
        "ticker/run_timers.py",
        "        report(moved.run, services)\n        return Handled(",
        "        return Handled(",
        INCIDENTS,
    ),
    Mutant(
        "whoever lost it and died is not stood in for",
        "ticker/run_timers.py",
        "        report(run, services)\n        return GOES",
        "        return GOES",
        INCIDENTS,
    ),
    Mutant(
        "what is EXPIRED is not reported",
        "worker/admission/refused.py",
        '    report(moved.run, worker.services)\n    return Outcome.refused("deadline"',
        '    return Outcome.refused("deadline"',
        INCIDENTS,
    ),
    # Backpressure, and the stripes of a queue.
    Mutant(
        "what is held back is taken off the agenda",
        "fires/backpressure.py",
        "            return [entry for entry in entries if entry.key not in parts or self._admits(entry, parts[entry.key], now)]\n",
        "            sent = [entry for entry in entries if entry.key in parts]\n"
        "            held = [entry for entry in sent if not self._admits(entry, parts[entry.key], now)]\n"
        "            self._services.agenda.remove(held)\n"
        "            return [entry for entry in entries if entry not in held]\n",
        PRESSURE,
    ),
    Mutant(
        "a queue is held back for tenants whose runs start",
        "state/backpressure.py",
        "return Standing.WAITS if all(known) else Standing.FLOWS",
        "return Standing.WAITS",
        PRESSURE,
    ),
    Mutant(
        "a tenant of which nothing is known sends all it has",
        "fires/backpressure.py",
        "return self._unproven[key] <= self._services.limits.unproven",
        "return self._unproven[key] > 0",
        PRESSURE,
    ),
    Mutant(
        "a full queue is filled further by tenants whose runs start",
        "fires/backpressure.py",
        "                self._full.add(part)\n",
        "",
        PRESSURE,
    ),
    Mutant(
        "what was held back counts as missed",
        "fires/chain.py",
        "    if plan.passed:\n        following",
        "    if not plan.passed:\n        following",
        PRESSURE,
    ),
    Mutant(
        "held back without a note",
        "fires/backpressure.py",
        "if after is hold_log or self._services.records.write(record):",
        "if after is hold_log or version >= 0:",
        PRESSURE,
    ),
    Mutant(
        "a spell is forgotten when it is over",
        "state/backpressure.py",
        "replace(self, periods=(*self.periods[:-1], replace(self.periods[-1], until=now)))",
        "replace(self, periods=self.periods[:-1])",
        PRESSURE,
    ),
    Mutant(
        "a receipt forgets its stripe",
        "sqs/striped_queue.py",
        "return [replace(each, receipt=stripe.marked(each.receipt), lane=lane) for each in found]",
        "return found",
        CONTRACT,
    ),
    # What the drivers make of a batch's answer.
    Mutant(
        "ignore DuplicateItem",
        "dynamodb/table_client.py",
        '(False, to_row(error["Item"])',
        '(True, to_row(error["Item"])',
        CONTRACT,
    ),
    Mutant(
        "ignore UnprocessedItems",
        "dynamodb/table_client.py",
        'answer.get("UnprocessedItems", {}).get(self.name)\n        if not refused',
        'answer.get("UnprocessedItems", {}).get(self.name)\n        if True',
        CONTRACT,
    ),
    Mutant(
        "ignore UnprocessedKeys",
        "dynamodb/table_client.py",
        'answer.get("UnprocessedKeys", {}).items()',
        "()",
        CONTRACT,
    ),
    Mutant(
        "ignore Failed",
        "sqs/queues.py",
        'accepted = [int(success["Id"]) for success in answer.get("Successful", [])]',
        'accepted = [int(entry["Id"]) for entry in entries]',
        CONTRACT,
    ),
    Mutant(
        "a view believes its first head",
        "sdk/schedules/reading.py",
        "            if now == head:",
        "            if True:",
        VIEWS,
    ),
    Mutant(
        "a view believes a revision that has ended",
        "sdk/schedules/reading.py",
        "head.state is not ScheduleState.ACTIVE or revision.active_until is None",
        "True",
        VIEWS,
    ),
    Mutant(
        "stops return before what was leased ahead has begun",
        "fires/withdraw.py",
        "        services.wait(HELD / SECOND)",
        "        pass",
        AHEAD,
    ),
    Mutant(
        "a cancellation returns before what was leased ahead has begun",
        "owner/runs/change.py",
        "    wait_for_held(held_leases(ended, context.clock()), context.services)\n",
        "",
        AHEAD,
    ),
    Mutant(
        "what was leased ahead begins at once",
        "worker/ahead.py",
        "        worker.wait_until(instant)",
        "        pass",
        AHEAD,
    ),
    Mutant(
        "what was given back while it was held begins all the same",
        "worker/execution/executor.py",
        "    if leased.in_flight.lost:\n        return Abandoned()\n    if not leased.ahead:",
        "    if not leased.ahead:",
        AHEAD,
    ),
    Mutant(
        "what was held for too long begins all the same",
        "worker/ahead.py",
        "in_time = now <= leased.message.not_before + TOO_LATE",
        "in_time = True",
        AHEAD,
    ),
    Mutant(
        "what was given back unbegun begins after its schedule was stopped",
        "state/before_start.py",
        "any_of(unbegun, crashed)",
        "crashed",
        AHEAD,
    ),
    Mutant(
        "what its worker took along while it was held begins after its schedule was stopped",
        "state/before_start.py",
        "any_of(unbegun, crashed))",
        "unbegun)",
        AHEAD,
    ),
    Mutant(
        "a run with one attempt is leased ahead",
        "worker/ahead.py",
        ".max_attempts > 1",
        ".max_attempts > 0",
        AHEAD,
    ),
    Mutant(
        "a window without a bound",
        "state/backfill.py",
        "return self.concurrency - len(self.window)",
        "return self.concurrency",
        BACKFILL,
    ),
    Mutant(
        "a cursor that stands still",
        "owner/backfill/advance.py",
        "        cursor = fire\n",
        "        cursor = backfill.cursor\n",
        BACKFILL,
    ),
    Mutant(
        "fires enter the window of a stopped backfill",
        "state/backfill.py",
        "if self.state is not BackfillState.RUNNING or self.exhausted:",
        "if self.exhausted:",
        BACKFILL,
    ),
    Mutant(
        "claims before the window names them",
        "owner/backfill/advance.py",
        "        written = write_backfill(after, mover.context.services)\n",
        "        _claimed(mover, after, [fire for fire in after.window if fire not in before.window])\n"
        "        written = write_backfill(after, mover.context.services)\n",
        BACKFILL,
    ),
    Mutant(
        "a mover that loses a race leaves the rest to the ticker",
        "owner/backfill/advance.py",
        "if again is None or mine.isdisjoint(again.window):",
        "if again or mine:",
        BACKFILL,
    ),
    Mutant(
        "a mover that loses a race counts its own run only",
        "owner/backfill/advance.py",
        "            backfill, fires = again, again.window\n",
        "            backfill = again\n",
        BACKFILL,
    ),
    Mutant(
        "a fire in the window without a run stays so",
        "owner/backfill/advance.py",
        "            missing.append(fire)\n",
        "            pass\n",
        BACKFILL,
    ),
    Mutant(
        "a lost message of a backfill is not sent again",
        "owner/backfill/advance.py",
        "            _send_again(mover, run, looked)\n",
        "            pass\n",
        BACKFILL,
    ),
    Mutant(
        "a fire that another has claimed is awaited",
        "state/backfill.py",
        "    if run.backfill != backfill:\n        return FireAction.SKIP\n",
        "",
        BACKFILL,
    ),
    Mutant(
        "free fires are skipped with the taken ones",
        "owner/backfill/advance.py",
        "if run.ref.is_fire and not is_free(run))",
        "if run.ref.is_fire)",
        BACKFILL,
    ),
    Mutant(
        "what the ledger may have forgotten runs again",
        "state/backfill.py",
        "return FireAction.SKIP if too_old else FireAction.CLAIM",
        "return FireAction.CLAIM",
        BACKFILL,
    ),
    Mutant(
        "done with runs under way",
        "state/backfill.py",
        "self.exhausted and not self.window",
        "self.exhausted",
        BACKFILL,
    ),
    Mutant(
        "a revived run is not sent",
        "owner/backfill/advance.py",
        "if run.ref in answer.created or revived.get(run.ref):",
        "if run.ref in answer.created:",
        BACKFILL,
    ),
    Mutant(
        "a refused run counts as one that ended",
        "owner/backfill/advance.py",
        "if state in _STARTED:",
        "if state is not None:",
        BACKFILL,
    ),
    Mutant(
        "a pause of a backfill takes nothing back",
        "owner/backfill/control.py",
        "BackfillState.PAUSED, context)\n    take_back(backfill, context)\n",
        "BackfillState.PAUSED, context)\n",
        BACKFILL,
    ),
    Mutant(
        "a cancelled backfill's retries go on",
        "owner/backfill/control.py",
        "waiting = WAITING if backfill.state is BackfillState.CANCELLED else {RunState.QUEUED}",
        "waiting = {RunState.QUEUED}",
        BACKFILL,
    ),
    Mutant(
        "a worker does not look whether its backfill was stopped",
        "owner/backfill/control.py",
        "if backfill is None or backfill.state not in _REASONS:",
        "if backfill or True:",
        BACKFILL,
    ),
    Mutant(
        "a stop takes another backfill's run",
        "owner/backfill/control.py",
        "yield replace(refusal, guard=all_of(own, refusal.guard))",
        "yield refusal",
        BACKFILL,
    ),
    Mutant(
        "the ticker leaves a stop unfinished",
        "owner/backfill/control.py",
        "    if backfill.state in _REASONS:\n        take_back",
        "    if backfill.state is None:\n        take_back",
        BACKFILL,
    ),
    Mutant(
        "a backfill without an entry",
        "owner/backfill/control.py",
        "may_go = due != entry.due and postpone(replace(entry, after=backfill.created), due, services)",
        "may_go = True",
        BACKFILL,
    ),
    Mutant(
        "an end after a cancellation is not counted",
        "owner/backfill/control.py",
        "if backfill.state in ENDED and not backfill.window:",
        "if backfill.state in ENDED:",
        BACKFILL,
    ),
    Mutant(
        "a backfill that takes more than its part of a tick",
        "owner/backfill/advance.py",
        "if until is not None and mover.context.clock() >= until:",
        "if until is None and mover.context.clock() < 0:",
        BACKFILL,
    ),
    Mutant(
        "a backfill outlives its schedule",
        "owner/backfill/control.py",
        "if ready is Readiness.ORPHANED and",
        "if ready is None and",
        BACKFILL,
    ),
    Mutant(
        "a one-off is moved although it has begun",
        "state/before_start.py",
        'name="reschedule",\n        to=None,\n        guard=all_of(NEVER_LEASED, same_revision(revision))',
        'name="reschedule",\n        to=None,\n        guard=same_revision(revision)',
        MOVED,
    ),
    Mutant(
        "of two moves the one that read first may hold",
        "state/before_start.py",
        'name="reschedule",\n        to=None,\n        guard=all_of(NEVER_LEASED, same_revision(revision))',
        'name="reschedule",\n        to=None,\n        guard=NEVER_LEASED',
        MOVED,
    ),
    Mutant(
        "what is under way for the old time of a moved run is taken for the new one's",
        "state/before_start.py",
        '"not_before": due, "rev": revision + 1}',
        '"not_before": due, "rev": revision}',
        MOVED,
    ),
    Mutant(
        "a moved run may begin at its old time",
        "state/before_start.py",
        'changes={"due": due, "not_before": due, "rev"',
        'changes={"due": due, "rev"',
        MOVED,
    ),
    Mutant(
        "the entries of a moved run are equal",
        "owner/runs/submit.py",
        "if run.ref.is_one_off and run.revision:",
        "if run.revision < 0:",
        MOVED,
    ),
    Mutant(
        "a letter about the old time ends a moved run",
        "undertaker/bury.py",
        "burial = _record(message.run, letter, context, message.revision)",
        "burial = _record(message.run, letter, context)",
        MOVED,
    ),
    Mutant(
        "a moved run has no entry",
        "stores/ledger.py",
        "writes = [_write(ref, transition), entry_put(put), entry_delete(remove)]",
        "writes = [_write(ref, transition), entry_delete(remove)]",
        MOVED,
    ),
    Mutant(
        "what stands at the place of a run that came back is taken for the first entry there",
        "state/history/entries.py",
        "return run.ref.is_one_off and run.revision > 0",
        "return run.ref.is_one_off and run.revision < 0",
        ("tests/unit/history/test_entries.py",),
    ),
    Mutant(
        "a stale worker's transaction is written",
        "stores/siblings.py",
        'only_if=held(fence), kind="check")',
        'only_if=held(fence).parts[0], kind="check")',
        TRANSACTIONS,
    ),
    Mutant(
        "a transaction whose response was lost is taken for refused",
        "stores/siblings.py",
        "        if 1 in refused:\n            return CommitResult(recorded=True)\n",
        "",
        TRANSACTIONS,
    ),
    Mutant(
        "a set of declarations that was replaced is applied again",
        "sdk/schedules/applied.py",
        "if stand is not None and self._digest in stand.earlier:",
        "if stand is not None and self._digest in stand.earlier[:0]:",
        DECLARED,
    ),
    Mutant(
        "every worker that starts applies its declarations",
        "sdk/schedules/applied.py",
        "if stand is not None and stand.current == self._digest and stand.done:",
        "if stand is None and self._digest == '':",
        DECLARED,
    ),
    Mutant(
        "a claim of declarations never ends",
        "sdk/schedules/applied.py",
        "and now <= stand.until + SKEW:",
        "and now >= 0:",
        DECLARED,
    ),
    Mutant(
        "a worker applies declarations beside the one that has the claim",
        "sdk/schedules/applied.py",
        "and now <= stand.until + SKEW:",
        "and now < 0:",
        DECLARED,
    ),
    Mutant(
        "a claim of declarations is not renewed",
        "sdk/schedules/applied.py",
        '        if now > int(self._record.body["until"]) - CLAIM // 2:\n',
        "        if now < 0:\n",
        DECLARED,
    ),
    Mutant(
        "a call stops within no part",
        "history/read.py",
        "            if moved and self._is_over():\n",
        "            if moved and self._is_over() and part.columns is None:\n",
        ("tests/unit/history/test_bounds.py",),
    ),
    Mutant(
        "what was put over an anchor is not reported",
        "auditor/log_verification.py",
        "        if changes := originals[key].changes:\n",
        "        if changes := 0:\n",
        ("tests/unit/auditor/test_closing.py",),
    ),
    *(Mutant(*each, HISTORY) for each in HISTORY_MUTANTS),
    *(Mutant(*each, RECORDS) for each in WORKER_MUTANTS),
    *(Mutant(*each, WHY) for each in WHY_MUTANTS),
    *(Mutant(*each, GRANTED) for each in GRANT_MUTANTS),
    *(Mutant(*each, WAITS) for each in WAIT_MUTANTS),
    *(Mutant(*each, MAPS) for each in MAP_MUTANTS),
    *(Mutant(*each, VERSIONS) for each in VERSION_MUTANTS),
    *(Mutant(*each, MOVES) for each in MOVE_MUTANTS),
    *(Mutant(*each, RESTORES) for each in RESTORE_MUTANTS),
    *(Mutant(*each, LINKS) for each in LINK_MUTANTS),
    *(Mutant(*each, UNIQUE) for each in UNIQUE_MUTANTS),
    *(Mutant(*each, BATCHES) for each in BATCH_MUTANTS),
    *(Mutant(*each, CHILDREN) for each in CHILD_MUTANTS),
    *(Mutant(*each, PIPELINES) for each in PIPELINE_MUTANTS),
    Mutant(
        "a definition that replaces another removes a payload that its sender has not seen",
        "sdk/schedules/changes.py",
        "        if payload is NONE:\n",
        "        if payload is UNSET:\n",
        ("tests/unit/web/test_roles.py",),
    ),
    Mutant(
        "a process follows a wall clock that was shifted",
        "clock.py",
        "if not -NEAR <= wall - steady - self._ahead <= NEAR:",
        "if False:",
        ("tests/unit/test_clock.py",),
    ),
    Mutant(
        "a process that was suspended stays behind",
        "clock.py",
        "            if abs(wall - there) <= TRUSTED:\n                self._ahead = wall - steady\n",
        "            if False:\n                self._ahead = wall - steady\n",
        ("tests/unit/test_clock.py",),
    ),
    Mutant(
        "a slow answer sets the clock",
        "clock.py",
        "if parsed is None or not 0 <= steady - since <= SLOW:",
        "if parsed is None:",
        ("tests/unit/test_clock.py",),
    ),
    Mutant(
        "a run ends by a clock that is behind",
        "domain/run.py",
        "return max(now, self.created_at, self.started_at or 0, self.leased_at or 0)",
        "return now",
        ("tests/unit/test_clock.py",),
    ),
    Mutant(
        "a damaged close stops the verification",
        "stores/audit.py",
        "    except Unreadable as problem:\n        return StoredClose(",
        "    except ZeroDivisionError as problem:\n        return StoredClose(",
        ("tests/unit/auditor/test_closing.py",),
    ),
    Mutant(
        "a gate that is missing is no finding",
        "stores/audit.py",
        "            if number != GATES:\n",
        "            if number > GATES:\n",
        ("tests/unit/auditor/test_closing.py",),
    ),
    Mutant(
        "a description holds a secret",
        "sdk/base.py",
        "        refuse_secrets(field, lambda: text, self.tenant)\n",
        "",
        ("tests/unit/worker/execution/test_secrets.py",),
    ),
    Mutant(
        "a tag holds a secret",
        "sdk/base.py",
        '        refuse_secrets("tags", lambda: found, self.tenant)\n',
        "",
        ("tests/unit/worker/execution/test_secrets.py",),
    ),
    Mutant(
        "a run's own tag gives way to that of its schedule",
        "historian/pages.py",
        "tags={**tags[_schedule_of(entry)], **entry.tags})",
        "tags={**entry.tags, **tags[_schedule_of(entry)]})",
        ("tests/unit/sdk/test_run_tags.py",),
    ),
    Mutant(
        "a waiting run is not listed by its own tags",
        "state/history/search.py",
        '"tags": {**tags, **run.own_tags}}',
        '"tags": tags}',
        ("tests/unit/sdk/test_run_tags.py",),
    ),
    Mutant(
        "a submission that replaces another keeps the tags of that one",
        "state/before_start.py",
        '    "actor",\n    "tags",\n',
        '    "actor",\n',
        ("tests/unit/sdk/test_run_tags.py",),
    ),
    Mutant(
        "a row whose tags are no object of texts is read",
        "stores/rows.py",
        '    tags_of(fields.get("tags"))\n',
        "",
        ("tests/unit/sdk/test_run_tags.py",),
    ),
    Mutant(
        "a page of a bulk act is begun before it is noted",
        "sdk/history/bulk_runs.py",
        "                    if work.page:\n                        notes.write(work)\n",
        "",
        ("tests/unit/sdk/test_bulk_runs.py",),
    ),
    Mutant(
        "a moved run keeps the message in its old queue",
        "state/before_start.py",
        '        changes={**changes, "rev": revision + 1},\n        already=all_of(NEVER_LEASED',
        '        changes={**changes, "rev": revision},\n        already=all_of(NEVER_LEASED',
        REQUEUED,
    ),
    Mutant(
        "a run that has begun moves to another queue",
        "state/before_start.py",
        'name="requeue",\n        to=None,\n        guard=all_of(NEVER_LEASED, same_revision(revision))',
        'name="requeue",\n        to=None,\n        guard=same_revision(revision)',
        REQUEUED,
    ),
    Mutant(
        "a requeue writes over a move that it has not read",
        "state/before_start.py",
        'name="requeue",\n        to=None,\n        guard=all_of(NEVER_LEASED, same_revision(revision))',
        'name="requeue",\n        to=None,\n        guard=NEVER_LEASED',
        REQUEUED,
    ),
    Mutant(
        "a bulk redrive repeats what was redriven or dismissed",
        "sdk/history/bulk_runs.py",
        "runs = [run for run in runs if run.id in listed]",
        "runs = list(runs)",
        ("tests/unit/sdk/test_bulk_runs.py",),
    ),
    Mutant(
        "a bulk act counts a throttled run as failed",
        "sdk/history/bulk_runs_work.py",
        "isinstance(problem, (Throttled, Unavailable))",
        "isinstance(problem, Unavailable)",
        ("tests/unit/sdk/test_bulk_runs.py",),
    ),
    Mutant(
        "a bulk act that goes on counts the page that it repeats twice",
        "sdk/history/bulk_runs_work.py",
        "counts = [self.began, self.key, self.done_before, self.failed_before]",
        "counts = [self.began, self.key, self.count, self.failed_count]",
        ("tests/unit/sdk/test_bulk_runs.py",),
    ),
    Mutant(
        "two bulk acts with one token go on side by side",
        "sdk/history/bulk_runs_work.py",
        "        self.version += 1\n",
        "",
        ("tests/unit/sdk/test_bulk_runs.py",),
    ),
    Mutant(
        "a run that was claimed in time and starts late is not missed",
        "domain/run.py",
        "max(self.created_at, ready) - self.due <= MISSED",
        "self.created_at - self.due <= MISSED",
        ("tests/unit/fires/test_catch_up.py",),
    ),
    *(Mutant(*each) for each in SCHEMA_MUTANTS),
    *(Mutant(*each, REGISTRY) for each in TENANT_MUTANTS),
    *(Mutant(*each, PLACES) for each in PLACE_MUTANTS),
    *(Mutant(*each, LIMITS) for each in LIMIT_MUTANTS),
    *(Mutant(*each, QUOTAS) for each in QUOTA_MUTANTS),
    *(Mutant(*each, BREAKERS) for each in BREAKER_MUTANTS),
    Mutant(
        "an audit reads a part of the ledger from its beginning again",
        "auditor/run_walks.py",
        "        progress.parts = {str(number): cursor for number, cursor in rest.items()}\n",
        "        progress.parts = {}\n",
        ("tests/unit/auditor/test_budget.py",),
    ),
    Mutant(
        "a large ledger takes all of an audit's time",
        "auditor/audit.py",
        "_until(end, state, walk.share / shares)",
        "end",
        ("tests/unit/auditor/test_budget.py",),
    ),
    Mutant(
        "a chain that moved is taken for a lost one",
        "auditor/chain_walk.py",
        "            found[shard if revision is None else revision.shard][chain] = suspects[chain]\n",
        "            found[shard][chain] = suspects[chain]\n",
        ("tests/unit/auditor/test_audit.py", "tests/unit/owner/test_placed_tenants.py"),
    ),
    Mutant(
        "the auditor sends for runs that wait for a breaker",
        "auditor/repairs.py",
        "        if breakers.over(run.job):\n",
        "        if False:\n",
        ("tests/unit/auditor/test_audit.py",),
    ),
    *(Mutant(*each, LANES) for each in LANE_MUTANTS),
    *(Mutant(*each, SLOTS) for each in PERMIT_MUTANTS),
    *(Mutant(*each, FLOWS) for each in FLOW_MUTANTS),
    *(Mutant(name, file, old, new, near(file)) for name, file, old, new in ROOM_MUTANTS),
)


class Tree:
    """A copy of the project in which one mutant at a time lives."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, place / name)

    def kill(self, mutant: Mutant) -> tuple[bool, str]:
        """Whether the proof notices it, and what did."""
        path = self.place / PACKAGE / mutant.file
        original = path.read_text()
        path.write_text(original.replace(mutant.old, mutant.new))
        try:
            return self._prove(mutant.killers)
        finally:
            path.write_text(original)

    def _prove(self, killers: Sequence[str]) -> tuple[bool, str]:
        paths = os.pathsep.join([str(self.place / "shared"), str(self.place)])
        environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-m",
            "not proof",
            *killers,
        ]
        try:
            done = subprocess.run(
                command, cwd=self.place, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return True, f"did not end in {PATIENCE} s"
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
        if done.returncode not in (0, 1):
            return False, f"pytest itself ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}"
        return done.returncode == 1, failed[0][:160] if failed else ""


def stale(mutants: Sequence[Mutant]) -> list[str]:
    """Mutants whose text is not in the code exactly once any more."""
    return [m.name for m in mutants if (ROOT / PACKAGE / m.file).read_text().count(m.old) != 1]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="mutants")
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--workers", type=number, default=2)
    parser.add_argument("--near", action="store_true", help="run the nearest folder of tests alone")
    parser.add_argument("--rooms", type=number, help="at most so many of each room, others every day")
    parser.add_argument("--most", type=number, help="at most so many of all, others every day")
    given = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if not given.names or mutant.name in given.names]
    unknown = set(given.names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(
            f"names: {sorted(unknown)} are none of the mutants; leave them out for all, or take names from this file"
        )
    if given.rooms:
        chosen = sample(chosen, given.rooms, TURN)
    if given.most:
        chosen = chosen[TURN % len(chosen) :] + chosen[: TURN % len(chosen)]
        chosen = chosen[: given.most]
    if given.near:
        chosen = [replace(mutant, killers=near(mutant.file)) for mutant in chosen]
    if stale(chosen):
        print(f"these do not apply any more: {stale(chosen)}; bring them up to the code")  # noqa: T201 (its report)
        return 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for place in range(given.workers):
            trees.put(Tree(Path(folder) / str(place)))
        with ThreadPoolExecutor(given.workers) as pool:
            killed = list(pool.map(lambda mutant: _one(mutant, trees), chosen))
    print(f"mutants={len(chosen)} killed={sum(killed)}")  # noqa: T201 (its report)
    return 0 if all(killed) else 1


def _one(mutant: Mutant, trees: SimpleQueue[Tree]) -> bool:
    tree, started = trees.get(), time.monotonic()
    try:
        killed, by = tree.kill(mutant)
    finally:
        trees.put(tree)
    took = time.monotonic() - started
    print(f"{'killed  ' if killed else 'SURVIVED'} {took:5.0f} s  {mutant.name}  {by}", flush=True)  # noqa: T201 (its report)
    return killed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
