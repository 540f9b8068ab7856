"""Signing in where no host application does it: a key opens a session, and the browser sends its cookie to the console alone."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from quarterjack.console.rendering import ROOT, rendered
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.web.authentication import Actor, ApiKeyAccess
from quarterjack.web.problems import RefusedRequest

COOKIE = "quarterjack_session"
_BYTES = 32  # of chance in a session
_LONGEST_KEY = 1_000  # characters
_NEXT, _ACTION, _FIELD = "next", "action", "field."  # of the form that asks for the key
_PAGE = re.compile(
    r"/t/[!-\[\]-~]*"
)  # of a tenant: printable ASCII without a backslash, which browsers read as a stroke


class ConsoleSession(Protocol):
    """An ``Access`` for browsers. A key opens a session, and the session has a cookie."""

    asks: str  # label of the field for the key
    wrong: str  # error message for a key that opens no session

    def __call__(self, request: Request) -> Actor | None:
        """The actor whose cookie the request has; None without a valid cookie."""
        ...

    def opened_by(self, key: str) -> str | None:
        """The value of the cookie for this key; None if the key opens no session. The call may read a table."""
        ...

    def end(self, request: Request) -> None:
        """Called at sign-out, beside the removal of the browser's cookie."""
        ...


class BrowserSession:
    """An ``Access``: a person who has signed in with the key is the operator of the process, until it ends.

    The cookie holds a word of its own, so that a stolen cookie does not tell the key, and is sent below ``/console`` only: no page makes
    a browser call the API.
    """

    asks = "Key that quarterjack serve or quarterjack local has printed"
    wrong = "This is not the key of this start of the server. Copy the whole of it, with qjk_local_."

    def __init__(self, key: str, actor: Actor | None = None) -> None:
        self._key, self._actor = key.encode(), actor or Actor(operator=True)
        self._word = secrets.token_urlsafe(_BYTES)

    def __call__(self, request: Request) -> Actor | None:
        """The operator, or None."""
        given = request.cookies.get(COOKIE, "").encode()
        return self._actor if hmac.compare_digest(given, self._word.encode()) else None

    def opened_by(self, key: str) -> str | None:
        """The session's word, if this is the key."""
        return self._word if hmac.compare_digest(key.encode(), self._key) else None

    def end(self, request: Request) -> None:  # noqa: ARG002 (all sessions of the key are one)
        """Other browsers have to sign in again, too."""
        self._word = secrets.token_urlsafe(_BYTES)


class ApiKeySession:
    """An ``Access``: a person who has signed in with an API key may do what that key allows, in any process, until it is revoked.

    No process keeps sessions, so the cookie is the key itself: a browser shows it to no script and sends it to the console alone.
    """

    asks = "API key of your tenant"
    wrong = "This is not a valid API key. Copy the whole of it, with qj_; it may be revoked or have expired."

    def __init__(self, scheduler: Scheduler) -> None:
        self._keys = ApiKeyAccess(scheduler)

    def __call__(self, request: Request) -> Actor | None:
        """The key's holder, or None. Raises Unavailable."""
        key = request.cookies.get(COOKIE)
        return None if not key else self._keys.holder_of(key)

    def opened_by(self, key: str) -> str | None:
        """The key, if it is valid. Raises Unavailable."""
        return key if len(key) <= _LONGEST_KEY and self._keys.holder_of(key) else None

    def end(self, request: Request) -> None:
        """The key stays valid; revoking it is another action."""


class EitherSession:
    """An ``Access`` for keys of two kinds. The page asks for the first kind."""

    def __init__(self, first: ConsoleSession, second: ConsoleSession) -> None:
        self._both = (first, second)
        self.asks, self.wrong = f"{first.asks}, or an API key", f"{first.wrong} An API key begins with qj_."

    def __call__(self, request: Request) -> Actor | None:
        """The actor that one of them finds, or None. Raises as they do."""
        return next((actor for session in self._both if (actor := session(request)) is not None), None)

    def opened_by(self, key: str) -> str | None:
        """The word of the session that the key opens. Raises as they do."""
        return next((word for session in self._both if (word := session.opened_by(key)) is not None), None)

    def end(self, request: Request) -> None:
        """End the session that the request has."""
        for session in self._both:
            if session(request) is not None:
                session.end(request)


def sign_in_address(request: Request) -> str:
    """The page that asks for the key, and then leads to the page that was asked for."""
    wanted = request.url.path.removeprefix(request.scope[ROOT])
    wanted += f"?{request.url.query}" if request.url.query else ""
    goes_back = wanted not in ("/", "") and _is_page(wanted)
    return f"{request.scope[ROOT]}/sign-in" + (f"?{urlencode({_NEXT: wanted})}" if goes_back else "")


def has_form(request: Request) -> bool:
    """Whether a request sends a form of one of the tenants' pages."""
    return _is_page(request.url.path.removeprefix(request.scope[ROOT]))


async def ask_to_sign_in(request: Request) -> Response:
    """The page that asks for the key after a session has ended within a form. It keeps what the form has. Raises RefusedRequest."""
    fields = await _pairs(request)
    action = request.url.path.removeprefix(request.scope[ROOT])
    return _asks(request, 401, action=action, fields=fields)


async def sign_in_form(request: Request) -> Response:
    """The page that asks for the key."""
    return _asks(request, 200, following=_page_below(request.query_params.get(_NEXT)))


def _asks(
    request: Request,
    status: int,
    *,
    refused: bool = False,
    following: str = "",
    action: str = "",
    fields: Sequence[tuple[str, str]] = (),
) -> Response:
    return rendered(
        request,
        "sign_in.html",
        status,
        refused=refused,
        session=_session(request),
        following=following,
        action=action,
        fields=fields,
    )


async def sign_in_now(request: Request) -> Response:
    """Open a session with the key of the form."""
    check_same_site(request)
    session, root = _session(request), request.scope[ROOT]
    given = dict(pairs := await _pairs(request))
    following, action = _page_below(given.get(_NEXT)), _page_below(given.get(_ACTION))
    fields = [(name.removeprefix(_FIELD), value) for name, value in pairs if name.startswith(_FIELD)]
    word = None if session is None else await run_in_threadpool(session.opened_by, given.get("key", "").strip())
    if word is None:
        return _asks(request, 403, refused=True, following=following, action=action, fields=fields)
    answer: Response = RedirectResponse(f"{root}{following or '/'}", 303)
    if action:
        answer = rendered(request, "signed_in.html", action=action, fields=fields)
    answer.set_cookie(COOKIE, word, **_cookie(request))
    return answer


async def sign_out(request: Request) -> Response:
    """End the session of the request's cookie, in every browser."""
    check_same_site(request)
    session, root = _session(request), request.scope[ROOT]
    answer = RedirectResponse(f"{root}/sign-in", 303)
    if session is not None and await run_in_threadpool(session, request) is not None:
        await run_in_threadpool(session.end, request)
        answer.delete_cookie(COOKIE, **_cookie(request))
    return answer


async def _pairs(request: Request) -> list[tuple[str, str]]:
    """The fields of a form, in their order. Raises RefusedRequest for a form of another site."""
    check_same_site(request)
    return parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True)


def _page_below(address: str | None) -> str:
    """An address below the console's that a form or a link has named; empty for every other one, such as another site's."""
    return address if address is not None and _is_page(address) else ""


def _is_page(address: str) -> bool:
    return _PAGE.fullmatch(address) is not None and "/../" not in address and "//" not in address.partition("?")[0]


def _cookie(request: Request) -> dict[str, Any]:
    """Sent below the console alone, by its own pages, and never over a connection that others can read where this one is not."""
    secure = request.url.scheme == "https"
    return {"path": request.scope[ROOT] or "/", "httponly": True, "samesite": "strict", "secure": secure}


def check_same_site(request: Request) -> None:
    """Raises RefusedRequest unless a form comes from a page of this server. Browsers say so by Sec-Fetch-Site, old ones by Origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = urlsplit(origin or "").netloc == request.headers.get("host") if site is None else site == "same-origin"
    if not own:
        raise RefusedRequest(
            403, "the form does not come from a page of this console", "open the page here and send it again"
        )


def _session(request: Request) -> ConsoleSession | None:
    found: ConsoleSession | None = request.app.state.console.session
    return found
