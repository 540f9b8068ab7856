"""What was found, as a page of markdown that no hand has touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """Of one part of the proof."""

    HELD = "held"
    BROKEN = "BROKEN"
    UNFINISHED = "UNFINISHED"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One part of the proof, and what it came to."""

    part: str
    verdict: Verdict
    says: str  # a sentence: figures, or why it was skipped
    rows: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # a table of its own


def unfinished(part: str, problem: Exception) -> Finding:
    """An error kept it from being judged."""
    return Finding(part=part, verdict=Verdict.UNFINISHED, says=f"ended by {type(problem).__name__}: {problem}")


def skipped(part: str, why: str) -> Finding:
    return Finding(part=part, verdict=Verdict.SKIPPED, says=f"skipped: {why}")


def judged(part: str, wrong: Sequence[str], says: str, rows: Sequence[Mapping[str, Any]] = ()) -> Finding:
    """Broken if anything is wrong; what is, comes first."""
    return Finding(
        part=part,
        verdict=Verdict.BROKEN if wrong else Verdict.HELD,
        says="; ".join([*wrong, says]),
        rows=rows,
    )


def page(title: str, about: Mapping[str, str], findings: Sequence[Finding], remedy: Sequence[str] = ()) -> str:
    """The report. ``remedy``: commands that remove what is left behind."""
    count = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    said = ", ".join(f"{number} {verdict}" for verdict, number in count.items())
    lines = [f"# {title}", "", *(f"- {name}: {value}" for name, value in about.items()), f"- parts: {said}", ""]
    summary = [{"part": one.part, "verdict": str(one.verdict), "figures": one.says} for one in findings]
    lines += table(summary) if summary else ["No part was reached."]
    for one in findings:
        if one.rows:
            lines += ["", f"## {one.part}", "", *table(one.rows)]
    if remedy:
        lines += ["", "## Remove what is left behind", "", *(f"    {command}" for command in remedy)]
    return "\n".join(lines) + "\n"


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a table; its columns are the fields of the first row."""
    names = list(rows[0])
    cells = [names, ["---"] * len(names), *([_cell(row.get(name, "")) for name in names] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in cells]


def _cell(value: Any) -> str:
    text = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
