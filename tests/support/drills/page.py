"""The table of the page: one row for each drill, with what its last run printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.support.drills.registry import DRILLS
from tests.support.drills.siege import Result

BEGIN, END = "<!-- python -m tests.support.drills writes this table -->", "<!-- end of the table -->"
_HEAD = (
    "| drill, runbook | what was done | starts; runs under way | lost | doubles | in time again | the operator's commands |",
    "|---|---|---|---|---|---|---|",
)


def row(result: Result) -> str:
    """What a run showed."""
    verdict, drill = result.verdict, result.drill
    kinds = Counter(repeat.blow.kind if repeat.blow else "not explained" for repeat in verdict.repeats)
    doubles = f"{len(verdict.repeats)}" + (
        f": {', '.join(f'{kind} {n}' for kind, n in kinds.most_common())}" * bool(kinds)
    )
    commands = ", ".join(f"`{command}`" for command in result.commands)
    cells = (
        _title(drill.name),
        drill.done,
        f"{verdict.starts:,}; {result.under_way:,}",
        str(len(verdict.lost)),
        doubles,
        f"{result.seconds:.0f} s",
        commands,
    )
    return f"| {' | '.join(cells)} |"


def _title(name: str) -> str:
    return f"[{name}](../{DRILLS[name].page}.md)"


def rows(text: str) -> dict[str, str]:
    """The rows of a page by the name of their drill."""
    table = text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    return {line.partition("[")[2].partition("]")[0]: line for line in table[2:]}


def written(text: str, results: Iterable[Result]) -> str:
    """The page with the rows of these results in place of earlier ones. A drill that never ran has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no table; add the lines {BEGIN} and {END}")
    found = rows(text) | {result.drill.name: row(result) for result in results}
    table = "\n".join([*_HEAD, *(found[name] for name in DRILLS if name in found)])
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"
