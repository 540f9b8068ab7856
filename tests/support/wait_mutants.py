"""Mutants of waits: parks, wakes, signals, children, links, unique keys, batches. Each: name, file, this text, that text."""

WAIT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a run parks although its cancellation was asked for",
        "state/waits/park.py",
        "guard=all_of(held(fence), NOT_CANCELLED)",
        "guard=held(fence)",
    ),
    (
        "any worker parks a run",
        "state/waits/park.py",
        "guard=all_of(held(fence), NOT_CANCELLED)",
        "guard=NOT_CANCELLED",
    ),
    (
        "a wake is for any wait",
        "state/waits/park.py",
        "guard=all_of(in_state(RunState.PARKED), mine)",
        "guard=in_state(RunState.PARKED)",
    ),
    ("a wake of a run that runs", "state/waits/park.py", "guard=all_of(in_state(RunState.PARKED), mine)", "guard=mine"),
    ("a slice that ends in a wait is an attempt", "state/waits/park.py", '"attempt": Plus(-1)', '"attempt": Plus(0)'),
    (
        "a parked run may be leased after its deadline",
        "state/waits/park.py",
        "return wake_at if deadline is None else min(",
        "return wake_at if deadline is None else max(",
    ),
    (
        "the worker that parks a run does not check again",
        "worker/execution/settle.py",
        "if parks and moved.applied and is_over_already(worker, moved.run):",
        "if parks and moved.applied and moved.run is None:",
    ),
    (
        "a message that comes back finds a parked run and does not check",
        "worker/admission/refused.py",
        "if wake_if_over(run, worker.services, worker.clock) is not None:",
        "if run is None:",
    ),
    (
        "a wait has no timer",
        "worker/execution/park.py",
        "if entry.key not in worker.services.agenda.put([entry]):",
        "if entry.key is None:",
    ),
    (
        "the timer of a wait goes after its first check",
        "ticker/run_timers.py",
        "    return postpone(entry, due, services)",
        "    return due > 0",
    ),
    (
        "the entry of a run goes while a worker has the run",
        "ticker/run_timers.py",
        "    if has_live_lease(run, now):\n        return postpone(",
        "    if has_live_lease(run, now):\n        return True or postpone(",
    ),
    (
        "the entry of a run goes after its worker vanished",
        "ticker/run_timers.py",
        "now + _UNDER_WAY), context.services)\n    return message_of(run, context.services, context.trace) or True",
        "now + _UNDER_WAY), context.services)\n    return True",
    ),
    (
        "the entry of a run that is under way is written at each tick",
        "ticker/run_timers.py",
        "_UNDER_WAY = LOOKAHEAD + 5 * MINUTE",
        "_UNDER_WAY = 0",
    ),
    (
        "the timer believes that marks are whole",
        "ticker/run_timers.py",
        "wake_if_over(run, services, context.clock, rows=True)",
        "wake_if_over(run, services, context.clock)",
    ),
    (
        "one child is enough",
        "fires/parking.py",
        "        return not left\n",
        "        return len(left) < len(awaited)\n",
    ),
    (
        "a waker that died is not stood in for",
        "fires/parking.py",
        "if woken is None and not (run.state in (RunState.CONTINUED, RunState.QUEUED) and run.reason == WOKEN):",
        "if woken is None:",
    ),
    (
        "the end of a child is not told",
        "worker/pipeline.py",
        "acknowledge(worker, tell_parents(worker, done))",
        "acknowledge(worker, done)",
    ),
    (
        "a child's message goes although its parent was not told",
        "worker/after_end.py",
        "after = replace(outcome, acknowledgement=Acknowledgement.SHOW, at=at)",
        "after = outcome",
    ),
    (
        "a cancelled child is not told",
        "owner/runs/change.py",
        "        tell_end(run, context.services, context.clock)\n",
        "        pass\n",
    ),
    (
        "a cancellation leaves the children",
        "owner/runs/change.py",
        "        tell_end(run, context.services, context.clock)\n    _cancel_below(run, context, ended)\n",
        "        tell_end(run, context.services, context.clock)\n",
    ),
    (
        "a child whose worker died starts again after its parent was cancelled",
        "worker/admission/refused.py",
        "        worker.services.ledger.move(row.ref, request_cancel())",
        "        pass",
    ),
    (
        "a worker that ends a cancelled run leaves what its row names",
        "worker/execution/settle.py",
        "        end_children(row, worker.role)",
        "        pass",
    ),
    (
        "a worker that finds a cancelled run abandoned leaves what its row names",
        "worker/admission/refused.py",
        "            end_children(run, worker.role)",
        "            pass",
    ),
    (
        "the timer of a cancelled run leaves what is below it",
        "ticker/run_timers.py",
        "        end_children(run, context)",
        "        pass",
    ),
    (
        "a child starts after its parent was cancelled",
        "worker/admission/admit.py",
        "    not_granted,\n    orphaned,\n",
        "    not_granted,\n",
    ),
    (
        "the last signal is the answer",
        "stores/waits.py",
        'write = put_new(RUNS, present(row | {"actor": signal.actor, "channel": signal.channel}))',
        'write = RowWrite(table=RUNS, row=present(row | {"actor": signal.actor, "channel": signal.channel}), kind="put")',
    ),
    (
        "a timeout goes before a signal that came meanwhile",
        "worker/execution/run_store.py",
        'return self.signal(name) or {"payload": None, "at": none.at}',
        'return {"payload": None, "at": none.at}',
    ),
    (
        "a wait begins anew with each call",
        "worker/execution/waits.py",
        "wake_at = run.wake_at if is_last and run.wake_at is not None else now + min(limit, beat or limit)",
        "wake_at = now + min(limit, beat or limit)",
    ),
    (
        "the order of requests is not checked",
        "worker/execution/waits.py",
        "        check_order(self._record, place, request)\n",
        "",
    ),
    (
        "a child is submitted with each call",
        "worker/execution/waits.py",
        "            if not known:\n                try:\n",
        "            if known is not None:\n                try:\n",
    ),
    (
        "the key of a child does not know its parent",
        "state/waits/asked.py",
        'f"{parent}\\n{step}".encode()',
        "step.encode()",
    ),
    (
        "a job may return without a wait of before",
        "state/waits/asked.py",
        "    if count < len(known):\n",
        "    if count < 0:\n",
    ),
    (
        "a job that touches no wait may return without those of before",
        "worker/execution/effects.py",
        "        if run.asked is not None or run.asked_before:\n",
        "        if self._waits is not None:\n",
    ),
    (
        "a wait after a checkpoint is taken",
        "worker/execution/waits.py",
        "if self.has_checkpoint and place >= len(self._record)",
        "if not self and place >= len(self._record)",
    ),
    (
        "a checkpoint of an earlier attempt is forgotten",
        "worker/execution/effects.py",
        "        self._has_checkpoint = True\n",
        "",
    ),
    (
        "a mistyped token is looked up",
        "domain/names.py",
        "        if callback_token(run_id, check_name(name)) == token:\n",
        "        if check_name(name):\n",
    ),
    (
        "a timeout is dated by the worker that finds it",
        "worker/execution/run_store.py",
        "        none = SignalRow(payload=None, at=at)\n",
        "        none = SignalRow(payload=None, at=self.now())\n",
    ),
    (
        "a child that has begun goes on after its parent was cancelled",
        "worker/admission/refused.py",
        "return not run.fence or batch_size(parent) is None",
        "return not run.fence",
    ),
    (
        "an item that has begun ends with its batch",
        "worker/admission/refused.py",
        "return not run.fence or batch_size(parent) is None",
        "return True",
    ),
)

# Children as submissions.
CHILD_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a child is not held against what its job takes",
        "worker/execution/run_store.py",
        "        self._check_payload(job, payload)\n        policies",
        "        policies",
    ),
    (
        "items are not held against what other workers publish",
        "worker/execution/run_store.py",
        "        return self._worker.terms.payloads.looks_at_new(job)\n",
        "        return self._worker.jobs.get(job) is not None\n",
    ),
    (
        "a map goes to the default queue",
        "worker/execution/run_store.py",
        "worker.services, worker.clock, queue=queue, **given)",
        "worker.services, worker.clock, queue=None, **given)",
    ),
    (
        "a sleep that was refused returns when the job is called again",
        "worker/execution/waits.py",
        "if self._next == refused or (",
        "if (",
    ),
)

LINK_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "the answer by a link does not check that it is valid",
        "stores/waits.py",
        "        checks = [] if key is None else [",
        "        checks = [] if key is not self else [",
    ),
    (
        "a link that was revoked is open",
        "owner/runs/links.py",
        "    if link.revoked_at is not None:\n        return LinkState.REVOKED\n",
        "",
    ),
    (
        "a link that has expired is open",
        "owner/runs/links.py",
        "LinkState.EXPIRED if now >= link.expires_at else LinkState.OPEN",
        "LinkState.EXPIRED if now < 0 else LinkState.OPEN",
    ),
    (
        "two revocations of a link are two acts",
        "stores/waits.py",
        '| {"revoked_at": now}, only_if=_IS_VALID)',
        '| {"revoked_at": now})',
    ),
    (
        "a link of any run is revoked",
        "owner/runs/links.py",
        "    link = next(iter(waits.links(run.ref, which)), None)\n",
        "    link = next(iter(waits.links(run.ref)), None)\n",
    ),
)

UNIQUE_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a key that moved is written all the same",
        "stores/unique_keys.py",
        "[record_write(record), *new_run(run)]",
        "[record_write(record, follows=False), *new_run(run)]",
    ),
    (
        "the end of a run does not give its key back",
        "state/waits/unique.py",
        "    return not run.is_terminal if span is None else now < run.created_at + span\n",
        "    return span is None or now < run.created_at + span\n",
    ),
    (
        "a key for a time ends with its run",
        "state/waits/unique.py",
        "    return not run.is_terminal if span is None else now < run.created_at + span\n",
        "    return not run.is_terminal\n",
    ),
    (
        "a run that waits for its next attempt is replaced",
        "state/before_start.py",
        'guard=all_of(waits, Absent("started_at"), same_revision(revision)),',
        "guard=all_of(waits, same_revision(revision)),",
    ),
    (
        "a run that has begun counts as one that has not",
        "state/waits/unique.py",
        "    return run.state not in (RunState.QUEUED, RunState.PARKED) or run.fence > 0\n",
        "    return run.is_terminal\n",
    ),
    (
        "two replacements at once are both taken",
        "state/before_start.py",
        'guard=all_of(waits, Absent("started_at"), same_revision(revision)),',
        'guard=all_of(waits, Absent("started_at")),',
    ),
    (
        "each submission after a run makes one more",
        "owner/runs/unique.py",
        "if spec.on_duplicate is OnDuplicate.AFTER and held.follower is None:",
        "if spec.on_duplicate is OnDuplicate.AFTER:",
    ),
    (
        "the end of a run is not told to its follower",
        "fires/parking.py",
        "        if key is not None and key.run == run.ref and key.follower is not None:\n",
        "        if key is None and key.run == run.ref and key.follower is not None:\n",
    ),
    (
        "a follower is not checked after it was put",
        "owner/runs/unique.py",
        "    return notify_waiting(run.ref, services, context.clock) or run\n\n\ndef _deadline",
        "    return run\n\n\ndef _deadline",
    ),
    (
        "a follower starts beside the run before it",
        "fires/parking.py",
        "        return before is None or before.is_terminal\n",
        "        return True\n",
    ),
    (
        "a follower starts with a payload that was replaced",
        "state/waits/park.py",
        'guard=all_of(in_state(RunState.PARKED), mine, same_revision(revision), Absent("started_at")),',
        'guard=all_of(in_state(RunState.PARKED), mine, Absent("started_at")),',
    ),
    (
        "the deadline of a follower is forgotten",
        "state/waits/park.py",
        "        not_before=leased_from(wake_at, due=run.due, deadline=deadline),\n",
        "        not_before=wake_at,\n",
    ),
    (
        "a key is of all jobs",
        "stores/unique_keys.py",
        'f"{job}\\n{text}".encode()',
        "text.encode()",
    ),
)

BATCH_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "the first end completes a hundred",
        "fires/batches.py",
        "        return None if open_items else ends\n",
        "        return ends\n",
    ),
    (
        "an item whose end nobody marked is not looked for",
        "fires/batches.py",
        "        ends |= found\n",
        "",
    ),
    (
        "refused items are not marked",
        "owner/runs/batch.py",
        "    services.waits.mark_items(batch.ref, dict.fromkeys(refused, REFUSED), context.clock())\n",
        "",
    ),
    (
        "an item that is to be repeated is marked as refused",
        "owner/runs/batch.py",
        "    later = (Unavailable, Throttled, KeyReused)",
        "    later = (Unavailable, KeyReused)",
    ),
    (
        "a batch takes an item of another one",
        "owner/runs/batch.py",
        "    if answer.parent != item.run.parent:\n",
        "    if answer.parent is None:\n",
    ),
    (
        "a key names batches of any size",
        "owner/runs/batch.py",
        "    if batch_size(existing) != size or existing.job != run.job:\n",
        "    if existing.job != run.job:\n",
    ),
    (
        "the run after a batch has no timer",
        "owner/runs/batch.py",
        "    timer = put_entry(wait_timer(run, services, now), services)\n",
        "    timer = wait_timer(run, services, now)\n",
    ),
    (
        "items are put before their agenda entries are accepted",
        "owner/runs/batch.py",
        "    going = [place for place, entry in enumerate(entries) if entry.key in accepted]\n",
        "    going = [place for place, entry in enumerate(entries) if entry.key]\n",
    ),
    (
        "the end of an item is not counted by its kind",
        "fires/parking.py",
        'LETTERS.get(end.state, "S")',
        '"S"',
    ),
)
