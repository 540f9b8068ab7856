"""The command line: its commands, options and exit codes."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from quarterjack.cli.app import whole
from quarterjack.cli.commands import COMMANDS
from quarterjack.cli.exits import ExitCode
from quarterjack.web.shapes import remarks

from docs.generators.text import one_line

_USUAL = 0.6  # part of the commands that have an option, so that none names it

_SHARED = 3  # commands that have an option, so that it is described in front of them

_OTHER_CHANGES = ("pause", "delete", "trigger")  # what creating and pausing share is no part of a definition


def commands() -> Iterator[str]:
    """The command line, in the groups of its help. An option that several commands have is described once, in front."""
    found = [(path, command, _records(path, command)) for path, command in leaves(whole(), ("quarterjack",))]
    counts = Counter(record for _, _, records in found for record in records)
    commonest = {name: (name, what) for (name, what), _ in reversed(counts.most_common())}
    usual = {record for record, count in counts.items() if count > len(found) * _USUAL}
    shared = {record for record, count in counts.items() if count >= _SHARED and commonest[record[0]] == record}
    definition = _definition({path[1:]: records for path, _, records in found})
    yield "## Options and arguments of several commands\n\nA command below names those that it has.\n"
    yield from (f"- `{name}` (of nearly every command): {what}" for name, what in sorted(usual, key=_by_name))
    yield from (f"- `{name}`: {what}" for name, what in sorted(shared - definition - usual, key=_by_name))
    yield "\n## Options of a definition\n\n`schedules create`, `upsert` and `update` have all of these.\n"
    yield from (f"- `{name}`: {what}" for name, what in counts if (name, what) in definition)
    panel = ""
    for path, command, records in found:
        if (heading := COMMANDS[path[1]].panel) != panel:
            panel = heading
            yield f"\n## {panel}"
        usage = command.collect_usage_pieces(command.make_context(path[-1], [], resilient_parsing=True))
        words = [word for word in usage if word != "[OPTIONS]"]
        yield f"\n### `{' '.join((*path, *words))}`\n\n{inspect.cleandoc(command.help or '')}\n"
        defines = definition <= set(records)
        yield from (f"- `{name}`: {what}" for name, what in records if (name, what) not in shared)
        also = [f"`{_option(name)}`" for name, what in records if (name, what) in shared - definition - usual]
        also = [name for name in also if name.startswith("`-")] + [
            "[a definition's](#options-of-a-definition)"
        ] * defines
        if also:
            yield f"- Also {', '.join(also)}"


def _records(path: tuple[str, ...], command: Any) -> list[tuple[str, str]]:
    """The options and arguments of a command as its help has them: name and text."""
    context = command.make_context(path[-1], [], resilient_parsing=True)
    records = [record for option in command.params if (record := option.get_help_record(context))]
    texts = [(name, " ".join(what.removesuffix("[required]").split())) for name, what in records]
    return [(name, what) for name, what in texts if not name.startswith("--help")]


def _definition(records_of: Mapping[tuple[str, ...], list[tuple[str, str]]]) -> set[tuple[str, str]]:
    """The options that say what a schedule is: those of an update that creating has too, and no other command."""
    both = set(records_of["schedules", "create"]) & set(records_of["schedules", "update"])
    lists = [records for path, records in records_of.items() if path[0] == "schedules" and path[1] in _OTHER_CHANGES]
    return both - {record for records in lists for record in records}


def _option(name: str) -> str:
    """An option without the type of its value."""
    return re.sub(r" (<.+>|[A-Z]+)$", "", name).partition(", ")[2] or re.sub(r" (<.+>|[A-Z]+)$", "", name)


def _by_name(record: tuple[str, str]) -> tuple[bool, str]:
    return record[0].startswith("-"), record[0].lstrip("-")


def exits() -> Iterator[str]:
    """Exit codes of the command line. Those that differ in the run's state are one line."""
    lines = [[str(ExitCode[name].value), one_line(what)] for name, what in remarks(ExitCode).items()]
    for before, line in zip(lines[-2::-1], lines[:0:-1], strict=True):  # from the last line up
        if line[1].startswith("the same: "):
            before[0] += f", {line[0]}"
            before[1] += f", {line[1].removeprefix('the same: ')}"
            lines.remove(line)
    yield from (f"- {codes}: {what}" for codes, what in lines)


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands below a group, each with the words that call it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, child in children.items():
        yield from leaves(child, (*path, name))
