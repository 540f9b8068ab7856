"""Coverage-guided fuzzing of all that reads foreign text: messages, letters, rules, entries, rows, records, cursors, YAML.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris && /tmp/fuzz/bin/pip install -e '.[cli]'
    /tmp/fuzz/bin/python -m tests.support.fuzz -max_total_time=180 /tmp/fuzz/corpus

The corpus is a folder that exists; it is kept from run to run. Each input is given to every reader. A reader answers or raises one of
our errors; anything else, or a second on one input, is a finding: libFuzzer writes the input to ``crash-…`` and stops. Atheris is no
dependency of the project: without it this module only says so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from quarterjack.apply.document import read
from quarterjack.domain.message import decode, decode_letter
from quarterjack.domain.times import DAY
from quarterjack.dynamodb.items import to_row
from quarterjack.errors import QuarterjackError
from quarterjack.sdk.cursors import Listing
from quarterjack.stores.dead_index import dead_of
from quarterjack.stores.records import record_of
from quarterjack.stores.rows import entry_of, run_of
from quarterjack.stores.schedule_rows import freeze_of, head_of, revision_of
from quarterjack.timing import Rule, fires, timetable

NOON = 1_777_896_000_000
NUMBER = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,10})?")


def rule(text: str) -> None:
    table = timetable(Rule(expression=text), anchor=NOON, key="acme/s")
    next(iter(fires(table, NOON, NOON + 400 * DAY)), None)


def rows(text: str) -> None:
    """A table's item, as every reader of items may meet it."""
    given = json.loads(text)
    row = to_row({name: value for name, value in given.items() if is_attribute(value)})
    for reader in (run_of, record_of, dead_of, head_of, revision_of, freeze_of, entry_of):
        ours(reader, row)


def is_attribute(value: object) -> bool:
    """Whether DynamoDB could have sent it."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((kind, inner),) = value.items()
    if kind == "N":
        return isinstance(inner, str) and NUMBER.fullmatch(inner) is not None
    return isinstance(inner, {"S": str, "BOOL": bool, "M": dict, "L": list}.get(kind, ()))


def ours(reader: Callable[[Any], object], given: object) -> None:
    """Only our own errors are an answer."""
    try:
        reader(given)
    except QuarterjackError:
        return


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "ignore")
    for reader in (decode, decode_letter, rule, lambda body: read(body, "fuzz.yaml")):
        ours(reader, text)
    ours(Listing("list_runs", "acme/s").position, text)
    if is_json(text):
        ours(rows, text)


def main() -> None:
    if find_spec("atheris") is None:
        sys.exit(__doc__)
    atheris = import_module("atheris")
    atheris.instrument_all()
    atheris.Setup(["fuzz", "-timeout=1", "-max_len=2000", *sys.argv[1:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
