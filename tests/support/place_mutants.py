"""Mutants of tiers, weights and shards of single tenants. Each: name, file, this text, that text."""

from __future__ import annotations

PLACE_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "others use the shards of a tenant",
        "domain/tenants/agenda_layout.py",
        "if shard not in reserved)",
        "if True)",
    ),
    (
        "a tenant's shards are reserved and not used",
        "domain/tenants/agenda_layout.py",
        "among = place.shards[: place.used] or self.common",
        "among = self.common",
    ),
    (
        "what was reserved once is reserved anew",
        "domain/tenants/agenda_layout.py",
        "new = max(shards - len(before.shards), 0)",
        "new = shards",
    ),
    (
        "common shards count those of tenants",
        "domain/tenants/agenda_layout.py",
        "max(wanted - len(self.common), 0)",
        "max(wanted - self.shards, 0)",
    ),
    (
        "the last change of the layout wins",
        "stores/agenda.py",
        'only_if=all_of(Compare("shards", "=", present.shards), is_same)',
        'only_if=Compare("entry", "=", "config")',
    ),
    (
        "a profile does not change the layout",
        "stores/tenants/profiles.py",
        "        if layout is not None:\n",
        "        if False:\n",
    ),
    (
        "a layout that was read is believed for ever",
        "stores/agenda.py",
        "0 <= now - known[0] < BELIEVED:",
        "True:",
    ),
    (
        "a layout is forgotten when it cannot be read anew",
        "stores/agenda.py",
        "            if known is None or fresh:\n",
        "            if True:\n",
    ),
    (
        "a layout is asked for with every message while it cannot be read",
        "stores/agenda.py",
        "        if self._known is None and 0 <= now - self._unread < _AGAIN:\n",
        "        if False:\n",
    ),
    (
        "a message waits for its weight",
        "stores/agenda.py",
        "            self._unread = now\n            return 1\n",
        "            raise\n",
    ),
    (
        "a chain's entry is copied and not moved",
        "stores/schedules.py",
        ", replace(entry_delete(entry), only_if=is_there)]",
        "]",
    ),
    (
        "an entry that was handled meanwhile is moved",
        "stores/schedules.py",
        "replace(entry_delete(entry), only_if=is_there)",
        "entry_delete(entry)",
    ),
    (
        "a chain moves and its revision stays",
        "stores/schedules.py",
        "        writes = [moved, entry_put(",
        "        writes = [entry_put(",
    ),
    (
        "no chain moves",
        "auditor/repairs.py",
        "(home := layout.shard_of(revision.owner)) != shard",
        "(home := shard) != shard",
    ),
    (
        "a tier's limits do not count",
        "domain/tenants/profile.py",
        "own if self.tier is None else own.in_tier(self.tier.limits)",
        "own",
    ),
    (
        "a tier's jobs do not count",
        "domain/tenants/profile.py",
        "for default in (self.tier, self.installation):",
        "for default in (self.installation,):",
    ),
    (
        "a tier is read once",
        "stores/tenants/profiles.py",
        "not 0 <= now - min(part.at for part in parts) <= longest",
        "not 0 <= now - min(own.at, installation.at) <= longest",
    ),
    (
        "a tier that a process does not know of is none",
        "stores/tenants/profiles.py",
        "        if None in tier or not",
        "        if not",
    ),
    (
        "a tier of nobody is taken",
        "owner/tenants.py",
        "    if context.services.tenants.profile(name) is None:\n",
        "    if False:\n",
    ),
)
