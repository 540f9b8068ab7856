"""Mutants of moves: the border, what starts, what is compared. Each: name, file, this text, that text."""

MOVE_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a loaded schedule begins after its start",
        "moving/arrive.py",
        "    return max(start, item.active_from or 0) if",
        "    return max(start + 60_000, item.active_from or 0) if",
    ),
    (
        "a schedule whose fires end at the start does not go on",
        "moving/schedules.py",
        "(self.state is ScheduleState.ACTIVE or self.ended_at == start)",
        "(self.state is ScheduleState.ACTIVE)",
    ),
    (
        "a rate counts from the move",
        "moving/arrive.py",
        "        anchor=item.counts_from,\n",
        "        anchor=None,\n",
    ),
    (
        "a paused schedule is started over its owner's pause",
        "moving/arrive.py",
        "    return there.reason == LOADED or revision.active_until == item.ended_at\n",
        "    return True\n",
    ),
    (
        "fires end when the call is made",
        "owner/schedules/stop.py",
        "active_until=max(at or now, revision.active_from)",
        "active_until=max(now, revision.active_from)",
    ),
    (
        "a pause at once waits for an end that is ahead",
        "owner/schedules/stop.py",
        "        end = min(revision.active_until, max(now, revision.active_from))\n",
        "        end = revision.active_until\n",
    ),
    (
        "payloads are not compared",
        "moving/schedules.py",
        '    if not _same_payload(item.definition.payload or "null", present):\n',
        "    if False:\n",
    ),
    (
        "what is refused does not stop the load",
        "moving/load.py",
        "    is_refused = bool(found.count(Decided.REFUSED)) and not asked.skip\n",
        "    is_refused = False\n",
    ),
    (
        "a file that was cut off is loaded",
        "moving/file.py",
        "            if line.item == END:\n                return\n            yield line\n",
        "            if line.item == END:\n                return\n            yield line\n    return\n",
    ),
)
