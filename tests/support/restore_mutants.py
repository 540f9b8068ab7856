"""Mutants of restores: what the archive knows, what is held, what leaves the agenda. Each: name, file, this text, that text."""

RESTORE_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a restore does not ask the archive",
        "restore/reconcile.py",
        "yield from run_steps(restore, known, context)",
        "yield from run_steps(restore, {}, context)",
    ),
    (
        "chains that are over stay",
        "restore/reconcile.py",
        "yield from chain_steps(restore, context)",
        "yield from ()",
    ),
    (
        "a restored schedule begins at the point",
        "restore/schedules.py",
        "t0 = max(restore.until,",
        "t0 = max(restore.point,",
    ),
    (
        "a restore leaves the fences",
        "restore/fates.py",
        "return epoch * EPOCH + fence % EPOCH",
        "return fence",
    ),
    (
        "runs of which the archive does not know are left",
        "restore/runs.py",
        "if row.ref not in known:",
        "if False:",
    ),
    (
        "restored tables are taken at once",
        "stores/agenda.py",
        "if self.is_restored(present) and not self._restores:",
        "if False:",
    ),
    (
        "a message of an earlier epoch takes a lease",
        "state/lease.py",
        'Compare("attempt", "<", max_attempts), current)',
        'Compare("attempt", "<", max_attempts))',
    ),
)
