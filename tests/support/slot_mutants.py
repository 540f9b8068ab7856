"""Mutants of concurrency caps. Each: name, file, this text, that text."""

from __future__ import annotations

SLOT_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "slots are free before the clocks agree that their leases are over",
        "state/tenants/slots.py",
        "for name, (count, until) in self.held.items() if until + SKEW >= now}",
        "for name, (count, until) in self.held.items() if until - SKEW >= now}",
    ),
    (
        "slots end before the leases that rest on them",
        "state/tenants/slots.py",
        "HELD = LEASE + 15 * SECOND",
        "HELD = LEASE - 15 * SECOND",
    ),
    (
        "a cap lets one run more",
        "state/tenants/slots.py",
        "max(most - before.used(), 0)",
        "max(most - before.used() + 1, 0)",
    ),
    (
        "a run that one cap refused keeps its slot of another",
        "state/tenants/slots.py",
        "            if slots.held.get(process, (0, 0))[0] > count:  # another cap refused some of these\n",
        "            if False:\n",
    ),
    (
        "a process may have slots that end at several times",
        "state/tenants/slots.py",
        "before.changed(after).together(process), refused",
        "before.changed(after), refused",
    ),
    (
        "a process does not correct what it has of other caps of a record",
        "state/tenants/slots.py",
        "        before, refused = self.kept(process, own), dict",
        "        before, refused = self, dict",
    ),
    (
        "each cap of a record may have as many runs on their way",
        "state/tenants/slots.py",
        "        sent = sum(len(slots.sent) for slots in self.caps.values())\n",
        "        sent = 0\n",
    ),
    (
        "caps of one job with another number are two",
        "state/tenants/slots.py",
        "any(cap.job == job for cap in each.caps)",
        "any(cap is caps[job] for cap in each.caps)",
    ),
    (
        "a slot is not kept for a run that was sent for",
        "state/tenants/slots.py",
        "self.held.values()) + len(self.sent)",
        "self.held.values())",
    ),
    (
        "new runs pass those who wait",
        "state/tenants/slots.py",
        "run not in expected and not self.has_line]",
        "run not in expected]",
    ),
    (
        "the end of slots is moved forward by a slow clock",
        "state/tenants/slots.py",
        "        until = max(until, self.held.get(process, (0, 0))[1])\n",
        "",
    ),
    (
        "a process renews slots that it has no more",
        "worker/slots.py",
        "            if not slots.has(holding.process, holding.counts):\n                raise _Lapsed\n",
        "",
    ),
    (
        "leases are renewed before their slots",
        "worker/delivery/visibility.py",
        (
            "        self.slots.renew(self._services, now)\n        for in_flight in self.leased():\n"
            "            self._renew(in_flight, now)\n"
        ),
        (
            "        for in_flight in self.leased():\n            self._renew(in_flight, now)\n"
            "        self.slots.renew(self._services, now)\n"
        ),
    ),
    (
        "a lease is renewed beyond its slots",
        "worker/delivery/visibility.py",
        "        if not all(self.slots.covers(hold, lease_end(now)) for hold in in_flight.slots):\n",
        "        if not all(self.slots.covers(hold, 0) for hold in in_flight.slots):\n",
    ),
    (
        "a run that asks alone takes its lease beyond its slots",
        "worker/admission/lease.py",
        "        if not is_covered(worker, ready):\n",
        "        if ready is None:\n",
    ),
    (
        "a slot is given back although its lease may be live",
        "worker/admission/concurrency.py",
        "        over = in_flight.leased_until + SKEW if in_flight.leased_until else 0\n",
        "        over = 0\n",
    ),
    (
        "slots are given back before the end is recorded",
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
        "a message goes before its run is in the line",
        "worker/admission/concurrency.py",
        '        return _kept(worker, ready, "line_unwritten")\n',
        "",
    ),
    (
        "whoever joins the line does not look again",
        "worker/admission/concurrency.py",
        "        change_cap(cap, CapSlots.lined_up, services, clock, pause=partial(pause, services, worker.name))\n",
        "        pass\n",
    ),
    (
        "a rescheduled run is sent from the line",
        "fires/lines.py",
        (
            "        if run.not_before > max(entry.due, now):\n"
            "            return _Turn.MOOT if run.state is RunState.QUEUED else _Turn.MOVED\n"
        ),
        "",
    ),
    (
        "nobody tells of a run that expired in a line and whose worker died",
        "fires/lines.py",
        "return _Turn.DUE if run.state in _REPORTED and run.buried_at is None else _Turn.MOOT",
        "return _Turn.MOOT",
    ),
    (
        "a run whose next attempt comes later loses its only entry",
        "fires/lines.py",
        "return _Turn.MOOT if run.state is RunState.QUEUED else _Turn.MOVED",
        "return _Turn.MOOT",
    ),
    (
        "an entry of the line goes before its message",
        "fires/lines.py",
        "        accepted = send([message for _, message in messages], services.work, clock)\n",
        (
            "        services.agenda.remove([entry for entry, _ in going])\n"
            "        accepted = send([message for _, message in messages], services.work, clock)\n"
        ),
    ),
    (
        "runs are sent for before the slots are written",
        "fires/lines.py",
        "        if after == before or services.records.write(record):\n",
        "        _send_for(going, services, clock)\n        if after == before or services.records.write(record):\n",
    ),
    (
        "two entries of a run are one",
        "fires/lines.py",
        'id=f"{message.run}#{identity}"',
        'id=f"{message.run}#"',
    ),
    (
        "a line is left without a timer",
        "fires/lines.py",
        "    if not (slots.has_line or slots.sent or left.entries):\n",
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
        "a run that is over keeps the slot that was kept for it",
        "worker/admission/concurrency.py",
        "            _drop_reservation(worker, received, str(message.run))\n",
        "            pass\n",
    ),
    (
        "the auditor sends for runs of a line",
        "fires/resend.py",
        "    going = [message for message, line in found if line is None]\n",
        "    going = [message for message, _ in found]\n",
    ),
    (
        "the timer of an exclusive schedule sends for runs of a line",
        "worker/admission/slot.py",
        " if line_of(there[pair], services, clock) is None]",
        "]",
    ),
    (
        "an installation's cap of a job is each tenant's",
        "state/tenants/slots.py",
        "        (EVERYBODY, job, None if installation is None",
        "        (governance.tenant, job, None if installation is None",
    ),
    (
        "a stopping process keeps its slots",
        "worker/execution/settle.py",
        "    give_back(worker, [in_flight])\n",
        "",
    ),
)
