"""Mutants of the historian, which recorded histories must notice. Each: name, file, this text, that text."""

from __future__ import annotations

_DELIVER = "            done = deliver("  # of the follower, page by page

HISTORY_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    # The feed.
    (
        "a position that is stored before its batch is handled",
        "historian/follow.py",
        _DELIVER,
        "            ahead = ShardPosition(after=page.position or at.after, at=page.at)\n"
        "            self._position = _moved(position, shard.id, ahead)\n"
        "            self._write()\n" + _DELIVER,
    ),
    (
        "a batch that a service has refused is done",
        "historian/deliver.py",
        "    except (Misconfigured, Unavailable):\n        raise\n",
        "    except (Misconfigured, Unavailable):\n        return 0\n",
    ),
    # The archive.
    (
        "objects of one batch's name replace each other",
        "historian/archive.py",
        "inbox_key(min(instants), max(instants), batch, content), content",
        'inbox_key(min(instants), max(instants), batch, b""), content',
    ),
    (
        "what was delivered twice is read twice",
        "historian/archive.py",
        "if line.order != previous and hour_prefix(tenant, line.at) == prefix:",
        "if hour_prefix(tenant, line.at) == prefix:",
    ),
    (
        "the inbox is cleared before its transitions are stored again",
        "historian/archive.py",
        "        store.put(dict(_by_tenant(",
        "        store.remove(list(readable))\n        store.put(dict(_by_tenant(",
    ),
    (
        "compacted objects of an hour replace each other",
        "historian/archive.py",
        "object_key(tenant, hour, _BATCH, content), content",
        'object_key(tenant, hour, _BATCH, b""), content',
    ),
    (
        "a row that expires was removed by somebody",
        "state/history/run_changes.py",
        "None if change.expired else _kind(change.old, change.new)",
        "_kind(change.old, change.new)",
    ),
    (
        "the lease of an abandoned run is a heartbeat",
        "state/history/run_changes.py",
        "        if new.fence > old.fence:\n            return TransitionKind.LEASED\n",
        "",
    ),
    (
        "a gap that is recounted says nothing",
        "state/history/run_changes.py",
        "return TransitionKind.RECOUNTED if counts else None",
        "return None",
    ),
    # The pages.
    (
        "a run that leaves its end is not withdrawn",
        "state/history/entries.py",
        "if old is not None and before is not None and before != after:",
        "if False:",
    ),
    (
        "the older of two entries in two pages holds",
        "state/history/entries.py",
        "if held is None or entry.order > held[0].order:",
        "if held is None or entry.order < held[0].order:",
    ),
    (
        "the older of two entries in a batch holds",
        "state/history/entries.py",
        "later = max(there, entry,",
        "later = min(there, entry,",
    ),
    (
        "the later time holds, whatever the order of the changes",
        "state/history/entries.py",
        "old, new, order = change.old, change.new, order_of(change.sequence)\n    before",
        "old, new, order = change.old, change.new, order_of(change.at)\n    before",
    ),
    (
        "a row that expires takes its entry with it",
        "state/history/entries.py",
        "    if change.expired:\n        return\n",
        "",
    ),
    (
        "an entry of a batch does not stand for those that it has replaced",
        "state/history/entries.py",
        "again=there.again or entry.again",
        "again=later.again",
    ),
    (
        "pages of one hour replace each other",
        "historian/pages.py",
        'f"{tenant}#{book}#".encode() + body',
        'f"{tenant}#{book}#".encode()',
    ),
    (
        "a page of a batch that was not stored is not missed",
        "stores/history/books.py",
        '        if missing:\n            raise Unavailable(f"history: {missing} of',
        '        if False:\n            raise Unavailable(f"history: {missing} of',
    ),
    (
        "partitions of a busy day are not noted",
        "stores/history/books.py",
        "spreads = (page.tenant, page.book, day), SPREADS if page.spread else 1\n",
        "spreads = (page.tenant, page.book, day), 1\n",
    ),
    (
        "a day is noted without its tenant's knowledge",
        "stores/history/books.py",
        "        for page in pages:\n            self._note(page)\n",
        "",
    ),
    (
        "who waits between two attempts is in no list",
        "state/history/entries.py",
        "before != after or new.state in _BETWEEN or",
        "before != after or",
    ),
    (
        "an entry is given out before all that reach its place were read",
        "history/read.py",
        "for entry in merge.before(watermark):",
        "for entry in merge.before(None):",
    ),
    (
        "a cursor goes on behind the page of its entry",
        "history/read.py",
        "begin=self._merge.reaches(self._last.at))",
        "begin=self._last.at)",
    ),
    (
        "runs that ended at one time are one",
        "history/read.py",
        "return entry.at < self.at or (entry.at == self.at and (self.run is None or entry.run > self.run))",
        "return entry.at < self.at",
    ),
    # The list of runs.
    (
        "who is in the list of open runs is open",
        "history/find.py",
        "if not run.is_terminal and self._spec",
        "if self._spec",
    ),
    (
        "open runs of a schedule are read twice",
        "history/find.py",
        "return not is_open(run) or max(self._spec.after, self._cut) < run.due <= self._spec.upto",
        "return not is_open(run)",
    ),
    # Folded hours.
    (
        "a late page is not noted",
        "stores/history/books.py",
        "        self._note_late(pages)\n",
        "",
    ),
    (
        "an hour is folded that was not closed",
        "historian/page_compaction.py",
        "        self._history.close(self._closed)\n",
        "",
    ),
    (
        "a folded hour is read without its late pages",
        "history/read.py",
        "appended = every or not is_settled or day.late.get(number, 0) > folded or",
        "appended = every or not is_settled or",
    ),
    (
        "the bodies of large pages are not stored",
        "stores/history/books.py",
        '        self._store("append", [page_row(page, body=True) for page in large])  # before what names them\n',
        "",
    ),
    # Events and lines.
    (
        "an incident that nobody is told of is not an event",
        "undertaker/incidents.py",
        "        if to is None and SCHEDULE_EVENTS.get(event.kind) not in services.schedule_events:\n",
        "        if to is None:\n",
    ),
    (
        "an event has another id whenever it is made",
        "domain/history/outgoing_event.py",
        "f'{line.ref}#{line.sequence}'",
        "f'{line.ref}#{id(line)}'",
    ),
    (
        "a run that was cancelled is not an event",
        "domain/history/outgoing_event.py",
        "        TransitionKind.CANCELLED,\n",
        "",
    ),
    (
        "a new notice is not in the stream",
        "dynamodb/run_stream.py",
        '        if not (record.get("eventName") == _PUT if is_notice else is_run(ref)):\n',
        "        if not is_run(ref):\n",
    ),
    (
        "an act writes no audit entry",
        "stores/audit.py",
        "if tables.transact(verb, [*writes, *audit_writes(entry)], about):",
        "if tables.transact(verb, writes, about):",
    ),
    # The rebuild.
    (
        "a correction holds against later changes",
        "state/history/entries.py",
        "return order + 1 if",
        "return order + 1_000_000 if",
    ),
    (
        "a rebuild adds nothing",
        "historian/rebuild.py",
        "self._made[book].append(entry_of(run, at, corrected(0)))",
        "pass",
    ),
    (
        "a rebuild withdraws nothing",
        "historian/rebuild.py",
        "if not is_here and not entry.withdrawn:",
        "if False:",
    ),
    (
        "a stream whose position is trimmed has no gap",
        "historian/follow.py",
        "        self._note_gap(position, str(problem), report)\n",
        "        return\n",
    ),
)
