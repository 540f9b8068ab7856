"""Mutants of concurrency caps. Each: name, file, this text, that text."""

from __future__ import annotations

PERMIT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "permits are free before the clocks agree that their leases are over",
        "state/tenants/permits.py",
        "for name, (count, until) in self.held.items() if until + SKEW >= now}",
        "for name, (count, until) in self.held.items() if until - SKEW >= now}",
    ),
    (
        "permits end before the leases that rest on them",
        "state/tenants/permits.py",
        "HELD = LEASE + 15 * SECOND",
        "HELD = LEASE - 15 * SECOND",
    ),
    (
        "a cap lets one run more",
        "state/tenants/permits.py",
        "max(most - before.used(), 0)",
        "max(most - before.used() + 1, 0)",
    ),
    (
        "a run that one cap refused keeps its permit of another",
        "state/tenants/permits.py",
        "            if permits.held.get(process, (0, 0))[0] > count:  # another cap refused some of these\n",
        "            if False:\n",
    ),
    (
        "a process may have permits that end at several times",
        "state/tenants/permits.py",
        "before.changed(after).together(process), refused",
        "before.changed(after), refused",
    ),
    (
        "a process does not correct what it has of other caps of a record",
        "state/tenants/permits.py",
        "        before, refused = self.kept(process, own), dict",
        "        before, refused = self, dict",
    ),
    (
        "each cap of a record may have as many runs on their way",
        "state/tenants/permits.py",
        "        sent = sum(len(permits.sent) for permits in self.caps.values())\n",
        "        sent = 0\n",
    ),
    (
        "caps of one job with another number are two",
        "state/tenants/permits.py",
        "any(cap.job == job for cap in each.caps)",
        "any(cap is caps[job] for cap in each.caps)",
    ),
    (
        "a permit is not kept for a run that was sent for",
        "state/tenants/permits.py",
        "self.held.values()) + len(self.sent)",
        "self.held.values())",
    ),
    (
        "new runs pass those who wait",
        "state/tenants/permits.py",
        "if not was_queued and run not in expected and not self.has_queue]\n        got = ",
        "if not was_queued and run not in expected]\n        got = ",
    ),
    (
        "the end of permits is moved forward by a slow clock",
        "state/tenants/permits.py",
        "        until = max(until, self.held.get(process, (0, 0))[1])\n",
        "",
    ),
    (
        "a process renews permits that it has no more",
        "worker/permits.py",
        "            if not permits.has(holding.process, holding.counts):\n                raise _Lapsed\n",
        "",
    ),
    (
        "leases are renewed before their permits",
        "worker/delivery/visibility.py",
        (
            "        self.permits.renew([hold for each in leased for hold in each.permits.holds], self._services, now)\n"
            "        for in_flight in leased:\n"
            "            self._renew(in_flight, now)\n"
        ),
        (
            "        for in_flight in leased:\n            self._renew(in_flight, now)\n"
            "        self.permits.renew([hold for each in leased for hold in each.permits.holds], self._services, now)\n"
        ),
    ),
    (
        "a lease is renewed beyond its permits",
        "worker/delivery/visibility.py",
        "        if not all(self.permits.covers(hold, lease_end(now)) for hold in in_flight.permits.holds):\n",
        "        if not all(self.permits.covers(hold, 0) for hold in in_flight.permits.holds):\n",
    ),
    (
        "a run that asks alone takes its lease beyond its permits",
        "worker/admission/lease.py",
        "        if not is_covered(worker, ready):\n",
        "        if ready is None:\n",
    ),
    (
        "a permit is given back although its lease may be live",
        "worker/admission/concurrency.py",
        "        over = in_flight.leased_until + SKEW if in_flight.leased_until else 0\n",
        "        over = 0\n",
    ),
    (
        "permits are given back before the end is recorded",
        "worker/pipeline.py",
        "    try:\n        with settle_spans(worker, ended):",
        (
            "    from quarterjack.worker.admission.concurrency import give_back\n"
            "    for each, _ in ended:\n        each.in_flight.leased_until = 0\n"
            "    give_back(worker, [each.in_flight for each, _ in ended])\n"
            "    try:\n        with settle_spans(worker, ended):"
        ),
    ),
    (
        "a message goes before its run is in the wait queue",
        "worker/admission/concurrency.py",
        '        return _kept(worker, ready, "queue_unwritten")\n',
        "",
    ),
    (
        "whoever joins the wait queue does not look again",
        "worker/admission/concurrency.py",
        "        change_cap(cap, CapPermits.enqueued, services, clock, name=worker.name)\n",
        "        pass\n",
    ),
    (
        "a rescheduled run is sent from the wait queue",
        "fires/flow/next_runs.py",
        (
            "        if run.not_before > max(entry.due, now):\n"
            "            return _EntryUse.UNNEEDED if run.state is RunState.QUEUED else _EntryUse.MOVED\n"
        ),
        "",
    ),
    (
        "nobody tells of a run that expired in a wait queue and whose worker died",
        "fires/flow/next_runs.py",
        "return _EntryUse.DUE if run.state in _REPORTED and run.buried_at is None else _EntryUse.UNNEEDED",
        "return _EntryUse.UNNEEDED",
    ),
    (
        "a run whose next attempt comes later loses its only entry",
        "fires/flow/next_runs.py",
        "return _EntryUse.UNNEEDED if run.state is RunState.QUEUED else _EntryUse.MOVED",
        "return _EntryUse.UNNEEDED",
    ),
    (
        "an entry of the wait queue goes before its message",
        "fires/flow/wait_queue.py",
        "        accepted = services.work.send(\n",
        "        services.agenda.remove([entry for entry, _ in going])\n        accepted = services.work.send(\n",
    ),
    (
        "runs are sent for before the permits are written",
        "fires/flow/wait_queue.py",
        "        if after == before or services.records.write(_record(",
        "        _send_for(going, starts, services, clock)\n        if after == before or services.records.write(_record(",
    ),
    (
        "two entries of a run are one",
        "fires/flow/wait_queue.py",
        'id=f"{message.run}#{identity}"',
        'id=f"{message.run}#"',
    ),
    (
        "a wait queue is left without a timer",
        "fires/flow/wait_queue.py",
        "    if not (permits.has_queue or left or (permits.sent and cap.flow is None)):\n",
        "    if True:\n",
    ),
    (
        "a strict cap fails open",
        "worker/admission/concurrency.py",
        "        if any(cap.strict for cap in request.caps):\n",
        "        if not request.caps:\n",
    ),
    (
        "a cap that is not strict fails closed",
        "worker/admission/concurrency.py",
        "        if any(cap.strict for cap in request.caps):\n",
        "        if request.caps:\n",
    ),
    (
        "a run that is over keeps the permit that was kept for it",
        "worker/admission/concurrency.py",
        "            _drop_reservation(worker, received, is_over=outcome.is_over)\n",
        "            pass\n",
    ),
    (
        "the auditor sends for runs of a wait queue",
        "fires/resend.py",
        "    going = [message for message, queue in found if queue is None]\n",
        "    going = [message for message, _ in found]\n",
    ),
    (
        "the timer of an exclusive schedule sends for runs of a wait queue",
        "worker/admission/turns.py",
        " if wait_queue_of(there[pair], services, clock) is None]",
        "]",
    ),
    (
        "an installation's cap of a job is each tenant's",
        "state/tenants/caps.py",
        "        (EVERYBODY, job, None if installation is None",
        "        (governance.tenant, job, None if installation is None",
    ),
    (
        "a stopping process keeps its permits",
        "worker/execution/settle.py",
        "    give_back(worker, [(in_flight, lease is not None)])\n",
        "",
    ),
)
