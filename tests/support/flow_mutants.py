"""Breakages of flows: permits by run, rates, what becomes of runs without a permit, permits before the message."""

FLOW_MUTANTS = (
    (
        "a second delivery gives back the permit of the run that goes",
        "worker/admission/concurrency.py",
        "for hold in has.holds if hold.cap.flow is None or is_over]",
        "for hold in has.holds]",
    ),
    (
        "a flow lets one run more than it may",
        "state/tenants/permits.py",
        "free = len(runs) if cap.most is None else max(cap.most - len(self.sent), 0)",
        "free = len(runs) if cap.most is None else max(cap.most + 1 - len(self.sent), 0)",
    ),
    (
        "a new run passes those of its key that wait",
        "state/tenants/permits.py",
        "new = [] if self.has_queue else [run for run in runs if run not in expected]",
        "new = [run for run in runs if run not in expected]",
    ),
    (
        "the permit of a flow ends with the lease, as this clock has it",
        "state/tenants/permits.py",
        "left = 0 if self.flow is None else SKEW",
        "left = 0",
    ),
    (
        "a long run loses its permit",
        "worker/flow_permits.py",
        "            return permits.kept_for(has, now)\n",
        "            return permits\n",
    ),
    (
        "a rate forgets its starts",
        "state/tenants/permits.py",
        "        slot = math.ceil(max(slot, start) + flow.interval)\n",
        "        slot = math.ceil(start)\n",
    ),
    (
        "what a rate sends goes at once",
        "fires/flow/wait_queue.py",
        "max(one.not_before, starts[str(one.run)])",
        "one.not_before",
    ),
    (
        "a run of a queue is sent for while it waits without a timer",
        "fires/flow/dispatch.py",
        "            put_queue_timer(cap, services, next_look(clock()), clock())  # first, so that no entry is without a timer\n",
        "",
    ),
    (
        "a run that waits is sent as well",
        "fires/flow/dispatch.py",
        "if str(run.ref) not in waiting]",
        "]",
    ),
    (
        "nobody looks again after a run has entered the wait queue",
        "fires/flow/dispatch.py",
        "        _look_again(cap, services, clock)\n",
        "        pass\n",
    ),
    (
        "skip_new waits",
        "worker/admission/full.py",
        "cap.flow is None or cap.flow.on_full is not OnFull.SKIP_NEW",
        "True",
    ),
    (
        "keep_newest keeps the oldest",
        "worker/admission/full.py",
        "        *older, newest = waiting\n",
        "        newest, *older = waiting\n",
    ),
    (
        "cancel_old lets the others go on",
        "worker/admission/full.py",
        "        if cap.flow.on_full is OnFull.CANCEL_OLD:\n",
        "        if False:\n",
    ),
    (
        "runs that are ordered by priority share a queue",
        "state/tenants/caps.py",
        'return f"{self.wait_queue}#{priority.rank}" if by_priority else self.wait_queue',
        "return self.wait_queue",
    ),
    (
        "the ticker takes a key's terms for lost",
        "fires/flow/wait_queue.py",
        "    return cap if permits.flow is None else replace(",
        "    return cap if True else replace(",
    ),
    (
        "a submission forgets the flow of its job",
        "owner/job_terms.py",
        "            given = replace(given, flow=own.flow)\n",
        "            pass\n",
    ),
)
