"""Mutants of what ``why`` answers. Each: name, file, this text, that text."""

from __future__ import annotations

WHY_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a fire of another second is meant",
        "why/evidence.py",
        "if fire is not None and fire < facts.at + SECOND and",
        "if fire is not None and",
    ),
    (
        "the ledger is read before the agenda",
        "why/evidence.py",
        "            facts = self._with_agenda(facts)\n            facts = self._with_rows(facts, at, exact=ref is not None)\n",
        "            facts = self._with_agenda(facts)\n",
    ),
    (
        "a head that moved is not read again",
        "why/evidence.py",
        "            if now == head:\n",
        "            if now is not None:\n",
    ),
    (
        "a gap beyond the end of its revision",
        "why/evidence.py",
        "if revision.bound(facts.at) == facts.at and absence_of",
        "if absence_of",
    ),
    (
        "a gap that ended before",
        "why/evidence.py",
        "if revision is None or not covers(row, facts.at):",
        "if revision is None:",
    ),
    (
        "what a pause took back is late",
        "why/no_run.py",
        "    stop = stopped_since(facts, facts.governing)\n    if stop is not None:",
        "    stop = stopped_since(facts, facts.governing)\n    if stop is None:",
    ),
    ("a row is never gone", "why/no_run.py", "if facts.at <= facts.now - facts.retention or", "if facts.at <= 0 or"),
    (
        "a change is not looked for",
        "why/no_run.py",
        "        if absence_of(earlier, facts.at) is None:",
        "        if absence_of(earlier, facts.at) is not None:",
    ),
    (
        "a fire that a newer revision has ends",
        "why/under_way.py",
        "if not run.ref.is_fire or _is_taken_over(facts, run):",
        "if not run.ref.is_fire:",
    ),
    (
        "a pause during which it was changed begins with the change",
        "why/timeline.py",
        "while first + 1 < len(facts.revisions) and _continues(",
        "while False and _continues(",
    ),
    ("acts in the order of clocks", "why/timeline.py", "max(done, key=_version)", "done[-1]"),
    (
        "a drained schedule was paused",
        "why/under_way.py",
        "        deleted = entry.act is AuditAct.DELETE\n",
        "        deleted = False\n",
    ),
    (
        "a wait for others is not seen",
        "why/delay.py",
        "    if enqueued is None:\n        return",
        "    if enqueued is not None:\n        return",
    ),
    (
        "every run is late",
        "why/ended.py",
        "late = (run.lateness or 0) > LATE and",
        "late = (run.lateness or 0) >= 0 and",
    ),
    ("a request is always an owner's", "why/ended.py", "    if others:\n", "    if not others:\n"),
    (
        "the ticker was always behind",
        "why/delay.py",
        "    if not run.ref.is_fire or late <= LATE:",
        "    if not run.ref.is_fire:",
    ),
    (
        "clocks are not asked",
        "timing/absence.py",
        "        if after > before and second < instant",
        "        if False and second < instant",
    ),
)
