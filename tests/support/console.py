"""The console over a harness: a browser without JavaScript, that keeps cookies and sends the forms that pages have."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from httpx import Response
from quarterjack import Registry, Scheduler, Settings
from quarterjack.console import ApiKeySession, BrowserSession, add_console
from quarterjack.console.checkups import Checkups
from quarterjack.console.sign_in import EitherSession
from quarterjack.testing import Harness
from quarterjack.web import Actor, create_app

from tests.support.api import NOON, AsgiClient, greeting_jobs

KEY = "qjk_local_test"
FORM = "application/x-www-form-urlencoded"


class Browser:
    """Asks the console of a harness, signed in unless told otherwise."""

    def __init__(
        self,
        *,
        actor: Actor | None = None,
        scheduler: Scheduler | None = None,
        jobs: Registry | None = None,
        signed_in: bool = True,
        **options: Any,
    ) -> None:
        self.harness = Harness(jobs or greeting_jobs(), at=NOON)
        self.scheduler = scheduler or self.harness.scheduler
        self.session = EitherSession(BrowserSession(KEY, actor), ApiKeySession(self.scheduler))
        app = create_app(self.scheduler, access=self.session, **{"rate": None, **options})
        self.app = add_console(app, session=self.session)
        self.client = AsgiClient(self.app, {})
        if signed_in:
            self.sign_in(KEY)

    def sign_in(self, key: str) -> Response:
        answer = self.send("/console/sign-in", {"key": key})
        if "set-cookie" in answer.headers:
            self.client.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path: str, status: int = 200) -> str:
        """The text of a page of the tenant, without the marks that isolate what people have written."""
        answer = self.client.get(f"/console/t/default/{path}")
        assert answer.status_code == status, answer.text
        return answer.text.replace("<bdi>", "").replace("</bdi>", "")

    def send(
        self, address: str, fields: Mapping[str, str], site: str | None = "same-origin", **headers: str
    ) -> Response:
        given = {"content-type": FORM, **headers} | ({} if site is None else {"sec-fetch-site": site})
        return self.client.post(address, content=urlencode(fields), headers=given)

    def confirm(self, preview: str, **fields: str) -> Response:
        """Send the form of a page that asks for confirmation, with what a person types."""
        page = self.get(preview)
        action, hidden = post_form(page)
        return self.send(action, {**hidden, **fields})


def give_doctor(browser: Browser, examine: Callable[[Settings], Iterable[Any]]) -> None:
    """Let the console ask this instead of the doctor, whose checks ask AWS. The browser needs ``settings``, too."""
    mounted: Any = next(route for route in browser.app.routes if getattr(route, "path", "") == "/console")
    vars(mounted.app._app.state.console)["checkups"] = Checkups(examine)


def post_form(page: str) -> tuple[str, dict[str, str]]:
    """Address and hidden fields of the page's own form that changes something."""
    forms = re.findall(r'<form class="confirm" method="post" action="([^"]+)">(.*?)</form>', page, re.DOTALL)
    assert len(forms) == 1, page
    action, inside = forms[0]
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', inside)
    return html.unescape(action), {name: html.unescape(value) for name, value in hidden}


def form_of(page: str) -> dict[str, str]:
    """What a browser would send of the editor as it is."""
    inside = re.findall(r'<form class="editor".*?</form>', page, re.DOTALL)[0]
    found = dict(re.findall(r'<input[^>]* name="([^"]+)"[^>]*? value="([^"]*)"', inside))
    found |= dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n?(.*?)</textarea>', inside, re.DOTALL))
    for name, options in re.findall(r'<select[^>]* name="([^"]+)">(.*?)</select>', inside, re.DOTALL):
        found[name] = (re.findall(r'value="([^"]*)" selected', options) or [""])[0]
    return {name: html.unescape(value) for name, value in found.items()}
