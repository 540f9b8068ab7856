"""The extra explain: an expression in words."""

from __future__ import annotations

from quarterjack import Rule
from quarterjack.timing.describe import rule_words

words = rule_words(Rule.of("30 2 * * MON-FRI"))
assert "Monday through Friday" in words, words
