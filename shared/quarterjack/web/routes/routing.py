"""The base of all routes: JSON is read as payloads are, unknown names are refused, and errors are answered as problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args, get_origin

from fastapi import APIRouter, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from quarterjack.domain.payload import parse_json
from quarterjack.errors import InvalidInput
from quarterjack.web.problems import MEDIA_TYPE, RefusedRequest

OF_TENANT = "/v1/tenants/{tenant}"
_SAFE = ("GET", "HEAD", "OPTIONS")
_GUARDS = frozenset({"if-match", "if-none-match", "if-unmodified-since"})  # that change nothing unless something is so
_EMPTY = (b"", b"{}", b"null")
_LEAVE_OUT = "leave it out, or correct its name: /openapi.json has the names"


class _StrictRequest(Request):
    async def json(self) -> Any:
        """The body. Raises HTTPException 400 for invalid JSON, and for a key that an object has twice."""
        try:
            return parse_json((await self.body()).decode())
        except (ValueError, RecursionError) as problem:
            what = "it is nested too deep" if isinstance(problem, RecursionError) else str(problem)
            what = "a number in it has too many digits" if "set_int_max_str_digits" in what else what
            raise HTTPException(400, f"the body is not JSON: {what}") from None


class StrictRoute(APIRoute):
    """A route that reads JSON as payloads are read, and refuses unknown names."""

    @cached_property
    def query_words(self) -> Mapping[str, bool]:
        """The names that a query may have, and whether it may have them several times."""
        found = dict[str, bool]()
        for one in _query_of(self.dependant):
            kind = one.field_info.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= {
                    field.alias or name: _takes_many(field.annotation) for name, field in kind.model_fields.items()
                }
            else:
                found[one.alias] = _takes_many(kind)
        return found

    @cached_property
    def guards(self) -> frozenset[str]:
        """The headers with preconditions that it reads."""
        return frozenset(one.alias.lower() for one in _headers_of(self.dependant)) & _GUARDS

    def get_route_handler(self) -> Callable[[Request], Any]:
        """See ``APIRoute``."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strict


def _headers_of(dependant: Dependant) -> Iterator[Any]:
    yield from dependant.header_params
    for one in dependant.dependencies:
        yield from _headers_of(one)


def _query_of(dependant: Dependant) -> Iterator[Any]:
    yield from dependant.query_params
    for one in dependant.dependencies:
        yield from _query_of(one)


def _takes_many(kind: Any) -> bool:
    return get_origin(kind) in (list, Sequence) or any(map(_takes_many, get_args(kind)))


async def check_request(request: Request) -> None:
    """Raises InvalidInput for a name in the query that its route does not know or has twice, and for a body that it does not read.

    RefusedRequest 400 for a precondition that it does not read.
    """
    route = request.scope.get("route")
    if not isinstance(route, StrictRoute):
        return
    given, words = request.query_params, route.query_words
    for name, times in Counter(name for name, _ in given.multi_items()).items():
        if name not in words:
            raise InvalidInput(name, given[name], "is not known here", _LEAVE_OUT)
        if times > 1 and not words[name]:
            raise InvalidInput(name, given.getlist(name), f"is given {times} times", "give it once")
    if request.method not in _SAFE:
        for guard in sorted(_GUARDS - route.guards):
            if guard in request.headers:
                remedy = "leave it out: what it guards against would happen all the same"
                raise RefusedRequest(400, f"{guard.title()} is not read here", remedy, field=guard.title())
    if route.body_field is None and request.method not in _SAFE and (await request.body()).strip() not in _EMPTY:
        raise InvalidInput("body", "…", "is not read here", "send none: what it says would not be done")


def routes_of(tag: str, prefix: str = OF_TENANT) -> APIRouter:
    """A router whose routes are whole: an application takes them as they are.

    Including a router would analyse each of its routes once more, with the first request of every process.
    """
    problem = {
        "description": "a problem",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    return APIRouter(
        prefix=prefix,
        route_class=StrictRoute,
        tags=[tag],
        responses={"default": problem},
        generate_unique_id_function=name_of_route,
    )


def name_of_route(route: APIRoute) -> str:
    """The ``operationId``: the name of the function."""
    return route.name


def answers(model: Any, status: int = 200, text: str = "as asked", **more: str) -> dict[int | str, dict[str, Any]]:
    """``responses`` of a route: a document with its schema, and further statuses that have the same."""
    said: dict[str, Any] = {"description": text}
    if isinstance(model, type) and issubclass(model, BaseModel):
        said["model"] = model
    found: dict[int | str, dict[str, Any]] = {name[1:]: {**said, "description": text} for name, text in more.items()}
    return {status: said} | found
