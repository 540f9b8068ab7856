"""The page of a link that answers a run: for a person without an account. The link's token is all that is asked for.

Opened, it writes nothing: scanners of mail open links. Its button gives the answer.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from quarterjack.console.calls import Console
from quarterjack.console.rendering import rendered
from quarterjack.console.sign_in import check_same_site
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.owner.runs.links import LinkState
from quarterjack.sdk.session import Session
from quarterjack.sdk.waits.links import LinkView, read_link, use_link
from quarterjack.web.urls import run_of_url

_STATUS = dict.fromkeys((LinkState.EXPIRED, LinkState.REVOKED, LinkState.ENDED), 410)


async def show_link(request: Request) -> Response:
    """What is asked, and the button that gives the answer."""
    return await run_in_threadpool(_page, request, use=False)


async def confirm_link(request: Request) -> Response:
    """Give the answer. A form of another site is refused."""
    check_same_site(request)
    return await run_in_threadpool(_page, request, use=True)


def _page(request: Request, *, use: bool) -> Response:
    found, fault = None, None
    try:
        found = _found(request, use=use)
    except NotFound:
        return rendered(request, "link.html", 404, link=None, fault=None)
    except InvalidInput as problem:  # the wait takes this answer no more, or the address is none
        fault = problem
    status = 422 if found is None else _STATUS.get(found.state, 200)
    return rendered(request, "link.html", status if fault is None else 422, link=found, fault=fault)


def _found(request: Request, *, use: bool) -> LinkView:
    """Raises NotFound also for an address that no link has."""
    console: Console = request.app.state.console
    session: Session = console.front.scheduler_of(console.tenant).session
    try:
        run_id = run_of_url(request.path_params["run"])
    except InvalidInput:
        raise NotFound("there is no such link") from None
    token = request.path_params["token"]
    return use_link(session, run_id, token) if use else read_link(session, run_id, token)
