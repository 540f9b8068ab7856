"""Mutants of maps: windows, their ends and their checks. Each: name, file, this text, that text."""

MAP_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a window has one item too many",
        "state/waits/window.py",
        "min(self.at_a_time - len(self.open), self.size - self.cursor)",
        "min(self.at_a_time + 1 - len(self.open), self.size - self.cursor)",
    ),
    (
        "a map that is stopped goes on",
        "state/waits/window.py",
        "return 0 if self.is_stopped else min(",
        "return min(",
    ),
    (
        "a map is over while items are under way",
        "state/waits/window.py",
        "return not self.open and (self.cursor == self.size or self.is_stopped)",
        "return self.cursor == self.size or self.is_stopped",
    ),
    (
        "a window is written over another one",
        "stores/records.py",
        "record_write(record)\n        if audit",
        "record_write(record, follows=False)\n        if audit",
    ),
    (
        "an end that comes again is believed to be counted",
        "stores/waits.py",
        "return _marks(after or row) if is_new else None",
        "return _marks(after or row)",
    ),
    (
        "who loses the race for a window does not try again",
        "fires/windows/advance.py",
        "        if write_window(after, services, clock):\n            had_ended = _start(after, range",
        "        if write_window(after, services, clock) or True:\n            had_ended = _start(after, range",
    ),
    (
        "items start after the parent was cancelled",
        "fires/windows/advance.py",
        "return parent is not None and not parent.is_terminal and not parent.cancel_requested",
        "return parent is not None",
    ),
    (
        "a check of a window leaves items without a run",
        "fires/windows/advance.py",
        "    missing = [number for number, row in rows.items() if row is None]\n",
        "    missing = list[int]()\n",
    ),
    (
        "a check of a window does not send again",
        "fires/windows/advance.py",
        "    waiting = [row for row in rows.values() if row is not None and row.state is RunState.QUEUED]\n",
        "    waiting = list[RunRow]()\n",
    ),
    (
        "a check of a window believes that marks are whole",
        "fires/windows/advance.py",
        "    ends |= {number: LETTERS[row.state] for number, row in rows.items() if row is not None and row.is_terminal}\n",
        "",
    ),
    (
        "a message that the queue did not take is forgotten",
        "fires/windows/advance.py",
        "if messages and not all(send(messages, services.work, clock)):",
        "if messages and not send(messages, services.work, clock):",
    ),
    (
        "the end of the last item wakes nobody",
        "fires/parking.py",
        "    if waiting is not None:\n        notify_waiting(waiting, services, clock)\n    return True",
        "    return True",
    ),
    (
        "the first items have no entries",
        "owner/runs/maps.py",
        "range(1, min(window.size, window.at_a_time) + 1)",
        "range(0)",
    ),
    (
        "a cancellation leaves the items of maps",
        "owner/runs/change.py",
        "    for step in maps:\n        _cancel_map(parent, step, context, ended)\n",
        "",
    ),
    (
        "a map of other items goes on",
        "worker/execution/maps.py",
        "if before != request:",
        "if not before:",
    ),
    (
        "a message that comes twice sends the next items again",
        "fires/windows/advance.py",
        "if again and window is not None and marks is None:",
        "if window is not None and marks is None:",
    ),
    (
        "an item that was not sent is never sent again",
        "fires/windows/advance.py",
        "if again and window is not None and marks is None:",
        "if not again and window is not None and marks is None:",
    ),
    (
        "nobody knows which items an end let in",
        "fires/windows/advance.py",
        "after = after.entered(number)",
        "after = after.entered()",
    ),
)
