"""Text for people: what a payload or a result can do to the operator's terminal."""

from __future__ import annotations

from minutehand.cli.shell import text_of


def test_control_characters_are_shown_and_not_sent() -> None:
    assert text_of("\x1b[31mred\x1b]0;title\x07\x9b") == "\\x1b[31mred\\x1b]0;title\\x07\\x9b"
    assert text_of("two\nlines\tand a tab, ä") == "two\nlines\tand a tab, ä"
