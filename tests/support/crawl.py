"""Goes through the console as a person who may do everything: all pages that links and forms lead to, and the forms that they send.

What is found is what a new page has to bear, too: nothing here names one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode, urlsplit

from quarterjack.console.app import _pages
from starlette.routing import Route

from tests.support.console import Browser

_BASE = "/console/t/default"
_EACH = 2  # addresses of a route and an act
_OF_RUNS = 13  # of the page of a run: what it offers depends on the state
_MOST = 400  # pages
# What a person would type, by the name of the field. Others keep what the page has in them.
TYPED = {
    "can": "viewer",
    "end": "2026-05-04T11:00",
    "expires": "90d",
    "expression": "30 2 * * *",
    "hours": "2",
    "job": "greet",
    "priority": "low",
    "name": "typed",
    "description": "because",
    "payload": '{"to": "Ada"}',
    "reason": "because",
    "start": "2026-05-04T09:00",
    "tenant": "typed",
    "timezone": "Europe/Berlin",
    "to": "app:typed",
    "until": "2026-05-05T12:00",
}


@dataclass(frozen=True)
class SentForm:
    """A form that changes something, filled in."""

    page: str  # the address of the page that has it
    route: str  # its path, as the table of routes has it
    address: str
    fields: Mapping[str, str]

    @property
    def act(self) -> str:
        return f"{self.route} {self.fields.get('do', '')}".strip()


@dataclass
class Crawl:
    """What was found."""

    pages: dict[str, str] = field(default_factory=dict)  # address: route
    statuses: dict[str, int] = field(default_factory=dict)  # by address
    forms: dict[str, SentForm] = field(default_factory=dict)  # by act


def post_routes() -> list[str]:
    """The paths, below a tenant's, to which forms are sent."""
    return [route.path for route in _pages() if "POST" in (route.methods or ())]


def get_routes() -> list[str]:
    """The paths of the pages, below a tenant's."""
    return [route.path for route in _pages() if "GET" in (route.methods or ())]


def route_of(address: str, method: str) -> Route | None:
    """The route of an address below the tenant's."""
    path = urlsplit(address).path.removeprefix(_BASE)
    found = (route for route in _pages() if method in (route.methods or ()) and route.path_regex.match(path or "/"))
    return next(found, None)


def crawl(browser: Browser, *, led: bool = False) -> Crawl:
    """All pages and forms, from the overview on; of each route a few addresses. ``led``: only what pages lead to."""
    found, seen = Crawl(), Counter[str]()
    waiting = [_BASE + path for path in get_routes() if "{" not in path and (path == "/" or not led)]
    while waiting and len(found.pages) < _MOST:
        address = waiting.pop(0)
        route = route_of(address, "GET")
        query = dict(parse_qsl(urlsplit(address).query))
        kind = "" if route is None else f"{route.path} {query.get('do', '')} {sorted(query)}"
        if route is None or address in found.pages or seen[kind] >= (_OF_RUNS if route.path == "/run/{run}" else _EACH):
            continue
        seen[kind] += 1
        answer = browser.client.get(address)
        assert answer.status_code < 500, (address, answer.text)
        found.pages[address], found.statuses[address] = route.path, answer.status_code
        read = _Read(address)
        read.feed(answer.text)
        waiting += read.links
        for form in read.forms:
            for action, method, fields in form.sent():
                typed = {
                    name: value or (name in form.required and TYPED.get(name, "x")) or ""
                    for name, value in fields.items()
                }
                if method == "get":
                    waiting.append(f"{action}?{urlencode({name: value for name, value in typed.items() if value})}")
                elif (target := route_of(action, "POST")) is not None:
                    sent = SentForm(address, target.path, action, typed)
                    found.forms.setdefault(sent.act, sent)
    if not led:
        _add_unseen(found)
    return found


def _add_unseen(found: Crawl) -> None:
    """Forms that pages show only at times, such as when a check-up is over: sent without any field."""
    seen = {form.route for form in found.forms.values()}
    for route in post_routes():
        if route not in seen and "{" not in route:
            found.forms[route] = SentForm(_BASE + route, route, _BASE + route, {})


def elsewhere(address: str, tenant: str) -> str:
    """The same address below another tenant's."""
    return address.replace(f"{_BASE}/", f"/console/t/{tenant}/", 1)


def with_ids(address: str, route: str, ids: Mapping[str, str]) -> str | None:
    """The address with other things in the place of those that it names; None: it names none of these."""
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route) + "$"
    path, mark, query = address.removeprefix(_BASE).partition("?")
    match = re.match(pattern, path)
    names = [name for name in re.findall(r"{(\w+)}", route) if name in ids]
    if match is None or not names:
        return None
    filled = route.format(**{name: ids.get(name, value) for name, value in match.groupdict().items()})
    return f"{_BASE}{filled}{mark}{query}"


@dataclass
class _Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    buttons: list[tuple[str, str, str | None]] = field(default_factory=list)  # name, value, address of its own

    def sent(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Address, method and fields by each of its buttons."""
        for name, value, action in self.buttons or [("", "", None)]:
            yield action or self.action, self.method, {**self.fields, **({name: value} if name else {})}


class _Read(HTMLParser):
    """Links and forms of a page."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[_Form] = []
        self._address = address
        self._form: _Form | None = None
        self._select: str | None = None
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and given.get("href", "").startswith(_BASE):
            self.links.append(given["href"].partition("#")[0])
        elif tag == "form":
            self._form = _Form(given.get("action") or self._address, given.get("method", "get").lower())
            self.forms.append(self._form)
        elif self._form is not None:
            self._field(tag, given)

    def _field(self, tag: str, given: Mapping[str, str]) -> None:
        form, name = self._form, given.get("name", "")
        assert form is not None
        if "required" in given:
            form.required.add(name)
        if tag == "button":
            form.buttons.append((name, given.get("value", ""), given.get("formaction")))
        elif tag == "input" and name:
            if given.get("type") in ("checkbox", "radio") and "checked" not in given and form.fields.get(name):
                return
            form.fields[name] = given.get("value", "on" if given.get("type") == "checkbox" else "")
        elif tag in ("select", "textarea") and name:
            form.fields[name] = ""
            self._select = name if tag == "select" else None
            self._area = name if tag == "textarea" else None
        elif tag == "option" and self._select and (not form.fields[self._select] or "selected" in given):
            form.fields[self._select] = given.get("value", "")

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._area:
            self._form.fields[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None
