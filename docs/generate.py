"""Generate the parts of the documentation that follow from the code: public API, settings, errors, states, transitions, commands.

    python docs/generate.py            write
    python docs/generate.py --check    say what is stale, and exit with 1

On any page under docs/, the text between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->`` is one of the BLOCKS below.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from quarterjack.apply import schema
from quarterjack.signals.measurement import Emitter
from quarterjack.web.shapes import remarks

sys.path.insert(0, str(Path(__file__).parents[1]))  # the generators and the stack are folders of the checkout
from docs.generators.api import (
    api,
    api_http,
    api_notifiers,
    api_testing,
    calls,
    errors_table,
    option_words,
    roles,
    settings_table,
    states,
    transitions_table,
)
from docs.generators.commands import commands, exits
from docs.generators.service import alarms, forms_table, http_problems, http_routes, metrics_of, walls_table

DOCS = Path(__file__).parent
_PACKAGE = DOCS.parent / "shared" / "quarterjack"
_MARKED = re.compile(r"(<!-- begin: ([a-z-]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def decisions() -> Iterator[str]:
    """The titles of the records of decisions, each of which has its decision under that heading."""
    for place in sorted((DOCS / "adr").glob("[0-9]*.md")):
        text = place.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix("# ")
        _check_decision(place.name, text)
        yield f"- [{title}]({place.name})"


def _check_decision(name: str, text: str) -> None:
    """Raises ValueError if there is no sentence below the heading Decision."""
    if re.search(r"^## Decision[\s-]*.+?(?:\.|:$)(?:\s|$)", text, re.MULTILINE) is None:
        message = f"docs/adr/{name}: it needs a heading '## Decision' with a sentence below it"
        raise ValueError(message)


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "exit-codes": exits,
    "alarms": alarms,
    "api": api,
    "option-words": option_words,
    **{f"metrics-{role}": partial(metrics_of, role) for role in Emitter},
    "api-http": api_http,
    "api-notifiers": api_notifiers,
    "api-testing": api_testing,
    "calls": calls,
    "commands": commands,
    "decisions": decisions,
    "errors": errors_table,
    "forms": forms_table,
    "http-problems": http_problems,
    "http-routes": http_routes,
    "roles": roles,
    "settings": settings_table,
    "states": states,
    "transitions": transitions_table,
    "walls": walls_table,
}


def pages() -> Iterator[tuple[Path, str, str]]:
    """Every page with generated blocks: where, as it is, as it should be."""
    for page in sorted(DOCS.rglob("*.md")):
        present = page.read_text(encoding="utf-8")
        wanted = _MARKED.sub(
            lambda found: found[1] + "\n".join(BLOCKS[found[2]]()).strip("\n") + "\n" + found[3], present
        )
        if _MARKED.search(present):
            yield page, present, wanted
    place = _PACKAGE / "apply" / schema.SCHEMA
    yield place, place.read_text(encoding="utf-8") if place.exists() else "", schema.build(remarks)


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` only look."""
    stale = [(page, wanted) for page, present, wanted in pages() if present != wanted]
    for page, wanted in stale:
        sys.stdout.write(f"{page.relative_to(DOCS.parent)}\n")
        if "--check" not in arguments:
            page.write_text(wanted, encoding="utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
