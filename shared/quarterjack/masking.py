"""Masking: texts without the values of secrets, in the encodings in which errors, logs and endpoints repeat them.

``SecretValues`` are the values that one run has looked up: its results, errors and stages are masked by them. ``of_process`` are those
of all runs of this process: log lines are masked by them, whichever thread writes the line. Without a secret nothing is searched.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK = "[secret]"
LEAST = 4  # characters of a value or form that is masked: a shorter one occurs by chance
TELLING = 8  # characters from which an endpoint's answer is masked for a part of a URL, and from which stored data may not hold a value
_PIECE = 12  # characters of a value that are masked in errors and log lines, where texts are cut
_BLOCK = 6  # characters: of any _PIECE - 1 in a row, so many begin at a multiple of it
_FEW, _LONG = 2_000, 400  # forms that are looked for one by one in a text of more than so many characters
_LINE = 16  # characters of a line of a longer value, such as a private key
_DEEPEST = 64  # levels of data
_MOST = 1_000  # values of one process
_SENSITIVE = re.compile("pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)  # names in a secret that is JSON
_SKIPPED = (0, 2, 3)  # characters of base64 that depend on what stands 0, 1 or 2 bytes before a value


def parts_of_url(url: str) -> tuple[str, ...]:
    """What an endpoint may repeat of a URL that is a secret: its path, its query, and their longer parts."""
    _, _, path, query, _ = urlsplit(url)
    whole = (path + (f"?{query}" if query else ""), path, query)
    parts = (*path.split("/"), *(value for _, value in parse_qsl(query)))
    return tuple(text for text in (*whole, *parts) if len(text) >= TELLING)


@lru_cache(maxsize=256)
def encodings(value: str) -> tuple[str, ...]:
    """A value, and how texts write it: percent signs, JSON, HTML, ``repr``, hexadecimal, and base64, also of a longer text around it."""
    from html import escape  # noqa: PLC0415 (a table of 2,000 names, for who has secrets)

    raw = value.encode("utf-8", "surrogatepass")
    percent = (
        quote(value, safe="", errors="replace"),
        quote(value, errors="replace"),
        quote_plus(value, errors="replace"),
    )
    in_json = json.dumps(value)[1:-1]
    found = [
        *(unquote(value), *percent, *(_lower_percent(text) for text in percent)),
        *(in_json, json.dumps(in_json)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], in_json.replace("/", "\\/")),
        *(escape(value), escape(value, quote=False), escape(value).replace("&#x27;", "&#39;")),
        *(repr(value)[1:-1], repr(raw)[2:-1], raw.hex(), raw.hex().upper()),
        *_in_base64(raw),
    ]
    return (value, *dict.fromkeys(form for form in found if len(form) >= LEAST and form != value))


def _lower_percent(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join((head, *(part[:2].lower() + part[2:] for part in rest)))


def _in_base64(raw: bytes) -> Iterator[str]:
    """Base64 of the value, and what is the same in base64 of any text that holds it, as ``user:password`` does."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode()
        for before, skipped in enumerate(_SKIPPED):
            inner = encode(bytes(before) + raw).decode()[skipped : (before + len(raw)) * 8 // 6]
            if len(inner) > LEAST:
                yield inner


def _values_in(value: str) -> Iterator[str]:
    """The value, and those of its parts that are secrets by themselves."""
    yield value
    if "://" in value:
        yield from _values_in_url(value)
    elif value.lstrip()[:1] in ("{", "["):
        try:
            yield from _named(json.loads(value), is_secret=False)
        except (ValueError, RecursionError):
            return
    elif "\n" in value:
        lines = (line.strip() for line in value.splitlines())
        yield from (line for line in lines if len(line) >= _LINE and not line.startswith("-----"))


def _named(data: Any, *, is_secret: bool) -> Iterator[str]:
    """The texts under names like "password". Others, such as a host, may be said alone."""
    if isinstance(data, dict):
        for name, inner in data.items():
            yield from _named(inner, is_secret=is_secret or _SENSITIVE.search(name) is not None)
    elif isinstance(data, list):
        for inner in data:
            yield from _named(inner, is_secret=is_secret)
    elif is_secret and isinstance(data, str):
        yield data


def _values_in_url(url: str) -> Iterator[str]:
    try:
        yield from (text for text in parts_of_url(url) if len(text) >= _PIECE)
        password = urlsplit(url).password
    except ValueError:
        return
    if password is not None:
        yield from (password, unquote(password))


def _texts(data: Any) -> Iterator[str]:
    """The texts and keys of data of JSON."""
    if isinstance(data, dict):
        yield from data
        for inner in data.values():
            yield from _texts(inner)
    elif isinstance(data, list):
        for inner in data:
            yield from _texts(inner)
    elif isinstance(data, str):
        yield data


class SecretValues:
    """Values with a label each (its name, or whose it is), and texts without them. Safe from several threads; reading takes no lock."""

    def __init__(self, most: int | None = None) -> None:
        """``most`` values are kept, those that were added last; None: all."""
        self._most = most
        self._values: dict[str, frozenset[str]] = {}  # with their labels
        self._labels: dict[str, frozenset[str]] = {}  # of each form of a value
        self._forms: tuple[str, ...] = ()  # the first _FEW
        self._blocks: tuple[str, ...] = ()  # of _BLOCK characters, of which every piece has one
        self._starts: dict[str, tuple[str, ...]] = {}  # the forms that begin so, by their first LEAST characters
        self._pieces = set[str]()  # of _PIECE characters of a value; none where only so many values are kept

    def clear(self) -> None:
        """Forget all values."""
        self._take(SecretValues(self._most))

    def __bool__(self) -> bool:
        return bool(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def add(self, value: str, label: str) -> None:
        """From now on this value is masked, and the parts of it that are secrets by themselves."""
        if label in self._values.get(value, ()):
            return
        with _adding:
            for each in _values_in(value):
                if len(each) >= LEAST:
                    self._add(each, label)
            if self._most is not None and len(self._values) > self._most:
                self._forget()

    def _add(self, value: str, label: str) -> None:
        labels = self._values.pop(value, frozenset()) | {label}
        for form in encodings(value):
            known = self._starts.get(form[:LEAST], ())
            if form not in known:
                self._starts[form[:LEAST]] = (*known, form)
                self._forms = (*self._forms, form) if len(self._forms) < _FEW else self._forms
            self._labels[form] = self._labels.get(form, frozenset()) | labels
        if self._most is None and "://" not in value:  # the host of a secret URL may be said
            for text in {value, json.dumps(value)[1:-1], repr(value)[1:-1]}:
                self._pieces.update(text[at : at + _PIECE] for at in range(len(text) - _PIECE + 1))
                blocks = (text[at : at + _BLOCK] for at in range(0, len(text) - _BLOCK + 1, _BLOCK))
                self._blocks = tuple(dict.fromkeys((*self._blocks, *blocks)))
        self._values[value] = labels

    def _forget(self) -> None:
        """Keep the newer half."""
        kept = SecretValues(self._most)
        for value, labels in list(self._values.items())[len(self._values) // 2 :]:
            for label in labels:
                kept._add(value, label)
        self._take(kept)

    def _take(self, other: SecretValues) -> None:
        self._starts, self._forms, self._labels = other._starts, other._forms, other._labels
        self._values, self._pieces, self._blocks = other._values, other._pieces, other._blocks

    def text(self, text: str) -> str:
        """A text without the values, and without longer pieces of them: what is shown of a value may have been cut."""
        return self._without(text, [*self._whole(text, None), *self._cut(text)]) if self._values else text

    def whole(self, text: str, label: str | None = None) -> str:
        """A text without the values, all or those of one label."""
        return self._without(text, list(self._whole(text, label))) if self._values else text

    def data(self, data: Any, depth: int = 0) -> Any:
        """Data of JSON without the values. A number that is one becomes text."""
        if isinstance(data, str):
            return self.whole(data)
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            return data if self.held(repr(data)) is None else MASK
        if depth > _DEEPEST:
            return data
        if isinstance(data, dict):
            return {self.whole(str(key)): self.data(inner, depth + 1) for key, inner in data.items()}
        return [self.data(inner, depth + 1) for inner in data] if isinstance(data, (list, tuple)) else data

    def held(self, text: str, label: str | None = None, least: int = LEAST) -> str | None:
        """The label of a value that the text holds, of ``least`` characters at the least; None: it holds none."""
        for start, end in self._whole(text, label):
            if end - start >= least:
                return min(self._labels.get(text[start:end], {""}))
        return None

    def held_in(self, data: Any, label: str | None = None) -> str | None:
        """The label of a value of at least TELLING characters that data of JSON holds in a text or a key; None: it holds none."""
        texts = _texts(data) if self._values else ()
        return next((found for each in texts if (found := self.held(each, label, TELLING)) is not None), None)

    def _whole(self, text: str, label: str | None) -> Iterator[tuple[int, int]]:
        starts, labels, forms = self._starts, self._labels, self._forms
        places = range(len(text) - LEAST + 1)
        if len(text) > _LONG and len(forms) < _FEW:
            is_free = not any(form in text for form in forms)
        else:  # one step for each character, however many forms there are
            is_free = starts.keys().isdisjoint(text[at : at + LEAST] for at in places)
        if is_free:
            return
        for at in places:
            for form in starts.get(text[at : at + LEAST], ()):
                if text.startswith(form, at) and (label is None or label in labels.get(form, ())):
                    yield at, at + len(form)

    def _cut(self, text: str) -> Iterator[tuple[int, int]]:
        pieces, places = self._pieces, range(len(text) - _PIECE + 1)
        if any(block in text for block in self._blocks):
            yield from ((at, at + _PIECE) for at in places if text[at : at + _PIECE] in pieces)

    @staticmethod
    def _without(text: str, stretches: list[tuple[int, int]]) -> str:
        """The text with one mask in place of each stretch; stretches that overlap are one."""
        parts, shown, at = list[str](), 0, -1  # up to ``shown`` the text is done; a mask ends at ``at``
        for start, end in sorted(stretches):
            if start > at:
                parts += (text[shown:start], MASK)
            at = shown = max(at, end)
        return "".join((*parts, text[shown:]))


_adding = threading.Lock()
_of_run: ContextVar[SecretValues | None] = ContextVar("quarterjack_secrets", default=None)
of_process = SecretValues(_MOST)  # of all runs of this process, by tenant; those of the installation under ""


class Masking:
    """Lines that are logged within are masked by the values of a run, beside those of the process."""

    def __init__(self, values: SecretValues) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._token = _of_run.set(self._values)

    def __exit__(self, *_: object) -> None:
        _of_run.reset(self._token)


def of_run() -> SecretValues | None:
    """The values of the run whose code this is; None: of none, or in a thread that the job has started."""
    return _of_run.get()


def of_line(text: str) -> str:
    """A text of a log line without the secrets of its run and of the other runs of this process."""
    own = _of_run.get()
    return of_process.whole(text if own is None else own.text(text))


def of_fields(data: Any, depth: int = 0) -> Any:
    """The fields of a log line, likewise: numbers, switches and None as they are, all that JSON has not as text."""
    if data is None or isinstance(data, bool):
        return data
    if isinstance(data, (int, float)):
        return data if of_line(repr(data)) == repr(data) else MASK
    if isinstance(data, dict) and depth <= _DEEPEST:
        return {of_line(str(key)): of_fields(inner, depth + 1) for key, inner in data.items()}
    if isinstance(data, (list, tuple)) and depth <= _DEEPEST:
        return [of_fields(inner, depth + 1) for inner in data]
    return of_line(str(data))


def is_active() -> bool:
    """Whether this process has looked any secret up."""
    return bool(of_process) or bool(_of_run.get())
