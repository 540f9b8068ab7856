"""Drills: one fault in the middle of a calm load on real processes, the operator's procedure of a runbook, and an independent verdict.

    calm load ──► act (the fault) ──► procedure (the operator, with the runbook's commands) ──► calm load ──► rest ──► verdict

A further drill takes ten lines, in a module of this folder or a new one, and a place in ``registry.DRILLS``::

    def _lose_one(siege: Siege) -> None:
        siege.kill(
            "worker-1"
        )  # writes the blow into the journal; what it does not know: siege.strike("cut off", "worker-1", 8)
        siege.go_on(8)  # seconds; the load goes on


    def _start_it(siege: Siege) -> None:
        siege.start_again("worker-1")
        siege.quarterjack("workers", "list")  # a command of the runbook, in a process of its own


    ONE_GONE = Drill(
        name="one worker gone",
        done="One worker is killed, and comes back after 8 s.",
        runbook="nothing-runs",
        act=_lose_one,
        procedure=_start_it,
        explains=frozenset({"killed"}),
    )

A run that starts again is a violation, unless a blow of a kind in ``explains`` hit the process that had it. The act and the procedure
assert what they bring about, so that a drill without a fault fails. Then ``python -m tests.support.drills "one worker gone" --page
docs/explanation/drills.md`` writes its row, and ``tests/proof/test_drills.py`` runs it in ``make proof``.
"""
