"""Drills: one fault in the middle of a calm load on real processes, the operator's procedure of a runbook, and an independent verdict.

    calm load ──► act (the fault) ──► procedure (the operator, with the runbook's commands) ──► calm load ──► rest ──► verdict

A further drill takes ten lines, in a module of this folder or a new one, and a place in ``registry.DRILLS``::

    def _purge(siege: Siege) -> None:
        siege.purge(
            "work"
        )  # what breaks; write what keeps a process from its work into siege.journal: siege.strike("cut off", name, 4)


    def _resend(siege: Siege) -> None:
        siege.go_on(3)  # seconds until the operator comes; the load goes on
        siege.quarterjack("resend", "--all-tenants")  # a command of the runbook, in a process of its own


    PURGED = Drill(
        name="queue purged", runbook="purged-queue", done="The work queue is emptied.", act=_purge, procedure=_resend
    )

A run that starts again is a violation, unless a blow of a kind in ``explains`` hit the process that had it. The act and the procedure
assert what they bring about, so that a drill without a fault fails. Then ``python -m tests.support.drills "queue purged" --page
docs/explanation/drills.md`` writes its row, and ``tests/proof/test_drills.py`` runs it in ``make proof``.
"""
