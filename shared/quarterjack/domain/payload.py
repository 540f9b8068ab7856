"""Payloads as canonical JSON text, so that equal payloads are equal texts; and the keys of large ones in the bucket.

payloads/<tenant>/schedules/<name>/<hash>-<word>  of one schedule, its backfills included: removed when none of these names it
payloads/<tenant>/runs/<run id>/<hash>-<word>     of one run: removed when that run has left the ledger
results/<tenant>/<hash>                           results and checkpoints: they expire

The word is for one upload. So what is removed as a leftover cannot be what is being stored again meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote, unquote

from quarterjack.domain.names import RunRef, check_name, parse_run_id
from quarterjack.domain.redaction import Redact
from quarterjack.errors import InvalidInput, shorten

# Unpaired surrogates are not valid in UTF-8, and SQS refuses U+FFFE and U+FFFF. In JSON they are written as escapes.
_UNSENDABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")
_HALF = re.compile("[\ud800-\udfff]")


# Levels of nested lists and dicts: [] has one, 1 has none. Far below the 1,000 stack frames at which Python's JSON parser fails, so
# that every process can read an accepted payload. Parsers of other languages, which read logs and notifications, have similar
# limits (.NET 64, Ruby 100).
MAX_DEPTH = 64
LARGEST_RESULT = (
    5 * 1024 * 1024
)  # bytes of what a job keeps: a result, a checkpoint, and a task's payload that is made of results
_LEVELS = {"[": 1, "{": 1, "]": -1, "}": -1}
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


_compact: dict[str, Any] = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": False}
_encode, _encode_sorted = (json.JSONEncoder(sort_keys=by_key, **_compact).encode for by_key in (False, True))


def json_text(value: Any, *, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> str:
    """JSON that tables and queues accept; ``default`` gives a value of JSON for an object that is none.

    Raises ValueError or TypeError for a value that JSON does not have, such as NaN.
    """
    encode = _encode_sorted if sort_keys else _encode
    text = encode(value) if default is None else json.JSONEncoder(default=default, **_compact).encode(value)
    return text if text.isascii() else _UNSENDABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class DuplicateKey(ValueError):
    """An object of JSON has a key twice: parsers keep one of the values, and not all the same."""


def parse_json(text: str) -> Any:
    """The value of JSON text from outside. Raises ValueError for invalid JSON, and DuplicateKey."""
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise DuplicateKey(f"the key {shorten(twice)} occurs twice in one object")
    return found


def check_keys(payload: Any, path: str) -> None:
    """Raises InvalidInput for a key that is not text in the dicts of a payload, which contains itself nowhere.

    JSON would make a text of it, and the job would get ``"1"`` for ``1``. What a dataclass or model holds is for its type to read back.
    """
    left: list[tuple[str, Any]] = [(path, payload)]
    while left:
        place, value = left.pop()
        if isinstance(value, dict):
            for key in (key for key in value if not isinstance(key, str)):
                remedy = f"write it as text: {json.dumps(json.dumps(key))}"
                raise InvalidInput(place, key, "is a key that is not text, and JSON has no other", remedy)
            left += [(f"{place}.{key}", below) for key, below in value.items()]
        elif isinstance(value, list | tuple):
            left += [(f"{place}[{number}]", below) for number, below in enumerate(value)]


def size(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def has_half_pair(text: str) -> bool:
    """Whether JSON text has an unpaired surrogate: half of a character, which neither a terminal nor YAML can show."""
    return "\\ud" in text and _HALF.search(json.dumps(json.loads(text), ensure_ascii=False)) is not None


def is_too_deep(text: str, most: int = MAX_DEPTH) -> bool:
    """Whether JSON text has more than ``most`` levels. The text may be invalid JSON; the check does not recurse."""
    if text.count("[") + text.count("{") <= most:
        return False
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += _LEVELS.get(text[found.start()], 0)
        if depth > most:
            return True
    return False


PAYLOADS, RESULTS = "payloads", "results"  # folders of the bucket
_RUNS, _SCHEDULES = "runs", "schedules"
_HASH = re.compile("[0-9a-f]{64}")

PayloadOwner = RunRef | str  # whose a large payload is: a run's own, or of the schedule with this owner ("tenant/name")


def payload_key(whose: PayloadOwner, text: str) -> str:
    """A new key in the bucket for a text."""
    tenant, _, name = str(whose).partition("/")
    folder = (
        f"{_RUNS}/{quote(str(whose), safe='')}" if isinstance(whose, RunRef) else f"{_SCHEDULES}/{quote(name, safe='')}"
    )
    return f"{PAYLOADS}/{tenant}/{folder}/{_hash(text)}-{uuid.uuid4().hex[:8]}"


def result_key(tenant: str, text: str) -> str:
    """The key of a result or checkpoint in the bucket: each tenant stores equal ones once."""
    return f"{RESULTS}/{tenant}/{_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def owner_of_object(key: str) -> PayloadOwner | None:
    """Whose payload a key is; None for a key that was not made here."""
    parts = key.split("/")
    if len(parts) != 5 or parts[0] != PAYLOADS:
        return None
    _, tenant, folder, quoted, _ = parts
    name = unquote(quoted)
    if quote(name, safe="") != quoted:
        return None
    try:
        if folder == _SCHEDULES:
            return f"{tenant}/{check_name(name)}"
        run = parse_run_id(name) if folder == _RUNS else None
    except InvalidInput:
        return None
    return run if run is not None and run.tenant == tenant else None


def is_in_folder_of(key: str, tenant: str) -> bool:
    """Whether a key in the bucket is a payload of the tenant's."""
    whose = owner_of_object(key)
    return whose is not None and str(whose).partition("/")[0] == tenant


def is_object_of(key: str, tenant: str) -> bool:
    """Whether a key in the bucket is one of the tenant's: a payload, a result or a checkpoint."""
    folder, _, name = key.removeprefix(f"{RESULTS}/").rpartition("/")
    is_result = key.startswith(f"{RESULTS}/") and folder == tenant and _HASH.fullmatch(name) is not None
    return is_result or is_in_folder_of(key, tenant)


def folders_of(tenant: str) -> tuple[str, str]:
    """What the keys of a tenant's objects begin with, in their order."""
    return f"{PAYLOADS}/{tenant}/", f"{RESULTS}/{tenant}/"


def is_same_content(one: str | None, other: str | None) -> bool:
    """Whether two keys (None: no object) are of equal texts."""
    return _digest(one) == _digest(other)


def _digest(key: str | None) -> str | None:
    return None if key is None else key.rpartition("/")[2].partition("-")[0]


def has_content(key: str, text: str) -> bool:
    """Whether a key in the bucket is of this text."""
    return _digest(key) == _hash(text)


# What a job's payloads have to be.


class TypedPayload(Protocol):
    """The type of a job's payload, by the annotation of its function: ``quarterjack.payload_types``."""

    def check_annotation(self) -> None:
        """Raise JobError for an annotation that cannot be used."""

    def prepare(self) -> None:
        """Make now what the first payload would need. Raises as ``check_annotation``."""

    def converted(self, text: str, *, redact: Redact = ..., new: bool = False) -> Any:
        """The payload (JSON text) as the job gets it. Raises InvalidInput."""

    def jsonable(self, value: Any) -> Any:
        """A value of JSON for an object in a payload that is none."""

    def schema(self) -> Mapping[str, Any] | None:
        """Its JSON Schema."""

    def fit(self) -> Mapping[str, Any] | None:
        """What is published beside its schema for a check by it; None: there is none."""


class FittedPayload(Protocol):
    """The JSON Schema that a job's payloads have to fit: ``quarterjack.payload_types``."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """As it was declared."""

    def check(self, text: str, job: str, *, redact: Redact = ...) -> None:
        """Raise InvalidInput for a payload (JSON text) that does not fit."""

    def masking(self, redact: Redact) -> Redact:
        """With the fields that the schema has as ``writeOnly``."""


# Tags of runs.

MAX_RUN_TAGS = 1_000  # bytes of a run's own tags as JSON: each update of its row bills them


def text_of_tags(tags: Mapping[str, str]) -> str | None:
    """Tags as a row has them; equal tags are equal texts."""
    return json_text(dict(tags), sort_keys=True) if tags else None


def tags_of(text: str | None) -> Mapping[str, str]:
    """The reverse. Raises ValueError for a text that is none of tags."""
    found = {} if text is None else json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("tags are no object of texts")
    return found


def fitting_tags(*several: Mapping[str, str]) -> Mapping[str, str]:
    """The first of several tags of each key, in their order, as far as they fit into a row."""
    kept: dict[str, str] = {}
    for key, value in (pair for tags in several for pair in tags.items()):
        more = {key: value, **kept}
        if size(text_of_tags(more) or "") <= MAX_RUN_TAGS:
            kept = more
    return kept
