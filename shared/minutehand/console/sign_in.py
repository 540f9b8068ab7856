"""How ``minutehand serve`` knows a browser again: its key opens a session, whose cookie is sent to the console alone."""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from minutehand.console.rendering import ROOT, rendered
from minutehand.web.actors import Actor
from minutehand.web.problems import RefusedRequest

COOKIE = "minutehand_session"
_BYTES = 32  # of chance in a session


class BrowserSession:
    """An ``Access``: whoever has signed in with the key is the operator of the process, until it ends.

    The cookie holds a word of its own, so that a stolen cookie does not tell the key, and is sent below ``/console`` only: no page makes
    a browser call the API.
    """

    def __init__(self, key: str, actor: Actor | None = None) -> None:
        self._key, self._actor = key.encode(), actor or Actor(operator=True)
        self._word = secrets.token_urlsafe(_BYTES)

    def __call__(self, request: Request) -> Actor | None:
        """The operator, or None."""
        given = request.cookies.get(COOKIE, "").encode()
        return self._actor if hmac.compare_digest(given, self._word.encode()) else None

    def opened_by(self, key: str) -> bool:
        """Whether this is the key."""
        return hmac.compare_digest(key.strip().encode(), self._key)

    def begin(self, answer: Response, path: str) -> None:
        """Let an answer give the browser its cookie."""
        answer.set_cookie(COOKIE, self._word, path=path or "/", httponly=True, samesite="strict")

    def end(self, answer: Response, path: str) -> None:
        """Let an answer take the cookie back. Other browsers have to sign in again, too."""
        self._word = secrets.token_urlsafe(_BYTES)
        answer.delete_cookie(COOKIE, path=path or "/", httponly=True, samesite="strict")


async def sign_in_form(request: Request) -> Response:
    """The page that asks for the key."""
    return rendered(request, "sign_in.html", refused=False, served=_session(request) is not None)


async def sign_in_now(request: Request) -> Response:
    """Open a session with the key of the form."""
    check_same_site(request)
    session, root = _session(request), request.scope[ROOT]
    key = parse_qs((await request.body()).decode(errors="replace")).get("key", [""])[0]
    if session is None or not session.opened_by(key):
        return rendered(request, "sign_in.html", 403, refused=True, served=session is not None)
    answer = RedirectResponse(f"{root}/", 303)
    session.begin(answer, root)
    return answer


async def sign_out(request: Request) -> Response:
    """End the session, in every browser. Only who has it ends it."""
    check_same_site(request)
    session, root = _session(request), request.scope[ROOT]
    answer = RedirectResponse(f"{root}/sign-in", 303)
    if session is not None and session(request) is not None:
        session.end(answer, root)
    return answer


def check_same_site(request: Request) -> None:
    """Raises RefusedRequest unless a form comes from a page of this server. Browsers say so by Sec-Fetch-Site, old ones by Origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = urlsplit(origin or "").netloc == request.headers.get("host") if site is None else site == "same-origin"
    if not own:
        raise RefusedRequest(
            403, "the form does not come from a page of this console", "open the page here and send it again"
        )


def _session(request: Request) -> BrowserSession | None:
    found: BrowserSession | None = request.app.state.console.session
    return found
