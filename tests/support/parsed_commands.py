"""Whether the command line takes what the docs and the stack tell it."""

from __future__ import annotations

from typing import Any

import click
from quarterjack.cli.app import whole


def check_quarterjack(words: list[str]) -> None:
    """Click parses it, group by group, as it would; nothing is executed."""
    command: Any = whole()
    context = command.context_class(command, info_name="quarterjack", **command.context_settings)
    while True:
        is_group = hasattr(command, "commands")
        words = click.Command.parse_args(command, context, words) if is_group else command.parse_args(context, words)
        if not hasattr(command, "commands") or (command.invoke_without_command and not words):
            return
        name = words.pop(0)
        assert name in command.commands, f"quarterjack {name}: there is no such command"
        command = command.commands[name]
        context = command.context_class(command, info_name=name, parent=context, **command.context_settings)
