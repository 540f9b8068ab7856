"""Templates as answers. Everything that is shown is escaped; headers let a page load nothing but its own style and script."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from quarterjack.console import words
from quarterjack.console.count_charts import hour_bars, load_bars
from quarterjack.console.navigation import LINKS, fenced, groups_for, isolated, may_open
from quarterjack.console.run_charts import run_bars

ROOT = "console_root"  # of the ASGI scope: the path that the console is mounted at
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would not say the origin of a form
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@cache
def asset(path: str) -> str:
    """The address of a file below the folder of static files, with a mark of its content: a browser may keep it for ever."""
    content = (files("quarterjack.console") / "static" / path).read_bytes()
    return f"{path}?{sha256(content).hexdigest()[:12]}"


@cache
def environment() -> Environment:
    """Jinja2 with the words and pictures of the pages."""
    made = Environment(
        loader=PackageLoader("quarterjack.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(words.FILTERS, asset=asset, isolated=isolated, fenced=fenced)
    made.globals.update(
        run_bars=run_bars, hour_bars=hour_bars, load_bars=load_bars, groups_for=groups_for, may_open=may_open, **LINKS
    )
    return made


def rendered(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A template as an answer."""
    console = request.app.state.console
    text = (
        environment()
        .get_template(template)
        .render({"root": request.scope[ROOT], "call": None, "signs_in": console.session is not None, **values})
    )
    return HTMLResponse(text, status, headers=HEADERS)
