"""Whatever a service sends, our reader of HTTP gives the answer that the standard library's gives, or refuses it."""

from __future__ import annotations

import http.client
import io
import socket
from typing import Any, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st
from quarterjack.aws.http_connection import Connection

NAMES = ("content-length", "content-type", "transfer-encoding", "connection", "x-amzn-requestid")
_text = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)
_content = st.binary(max_size=400)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """A response, mostly whole, with headers in any spelling, of known length, chunked, or up to the end of the connection."""
    body, form = draw(_content), draw(st.sampled_from(("length", "chunked", "open", "short", "long")))
    status = draw(
        st.sampled_from(("200 OK", "200", "204 No Content", "304 Not Modified", "400 Bad Request", "503 Slow down"))
    )
    headers = [
        (draw(st.sampled_from(("X-Amzn-RequestId", "x-note", "Content-Type"))), draw(_text))
        for _ in range(draw(st.integers(0, 3)))
    ]
    if form == "chunked":
        headers.append(
            (
                draw(st.sampled_from(("Transfer-Encoding", "transfer-encoding"))),
                draw(st.sampled_from(("chunked", "Chunked"))),
            )
        )
        cut = draw(st.integers(0, len(body)))
        pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
        mark = draw(st.sampled_from((b"", b";note=1")))
        body = (
            b"".join(b"%x%s\r\n%s\r\n" % (len(piece), mark, piece) for piece in pieces)
            + b"0\r\n"
            + draw(st.sampled_from((b"", b"X-Sum: 1\r\n")))
            + b"\r\n"
        )
    elif form != "open":
        said = (
            len(body) + {"length": 0, "short": -draw(st.integers(0, len(body))), "long": draw(st.integers(1, 5))}[form]
        )
        headers.append((draw(st.sampled_from(("Content-Length", "content-length"))), str(said)))
    if draw(st.booleans()):
        headers.append(("Connection", draw(st.sampled_from(("close", "keep-alive", "Close")))))
    order = draw(st.permutations(headers))
    space = draw(st.sampled_from((" ", "", "  ")))
    head = "".join(f"{name}:{space}{value}\r\n" for name, value in order)
    text = f"HTTP/1.{draw(st.sampled_from('10'))} {status}\r\n{head}\r\n".encode()
    return draw(st.sampled_from((b"", b"HTTP/1.1 100 Continue\r\n\r\n"))) + text + body


class _Sent:
    """A socket from which a response is read, as http.client wants it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        del mode
        return io.BytesIO(self._data)


def _theirs(data: bytes) -> tuple[int, bytes, dict[str, str | None]] | None:
    response = http.client.HTTPResponse(cast(Any, _Sent(data)), method="POST")
    try:
        response.begin()
        content = response.read()
    except (http.client.HTTPException, ValueError):
        return None
    return response.status, content, {name: response.headers.get(name) for name in NAMES}


def _ours(data: bytes) -> tuple[int, bytes, dict[str, str | None]] | None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(data)
        there.shutdown(socket.SHUT_WR)
        connection = Connection(here)
        connection.deadline = float("inf")
        try:
            response, _ = connection.exchange(b"")
        except ConnectionError:
            return None
        return response.status, response.content, {name: response.headers.get(name) for name in NAMES}


@given(responses())
@settings(max_examples=300)
@example(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab")
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab")
@example(b"HTTP/1.1 200 OK\r\n\r\nab")
@example(b"")
def test_an_answer_is_that_of_the_standard_library_or_none(data: bytes) -> None:
    ours, theirs = _ours(data), _theirs(data)
    if ours is None:
        return
    assert theirs is not None, "half of it is missing"
    bodiless = ours[0] in (204, 304)  # whatever follows is no part of it, and ends the use of the connection
    assert (ours[0], b"" if bodiless else ours[1]) == (theirs[0], b"" if bodiless else theirs[1])
    for name, content in theirs[2].items():
        assert (ours[2][name] or "").strip() == (content or "").strip() or _is_repeated(data, name)


def _is_repeated(data: bytes, name: str) -> bool:
    """Of a header that stands twice, http.client gives the first."""
    return data.lower().count(f"\r\n{name}:".encode()) > 1


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_what_is_no_response_is_refused(data: bytes) -> None:
    if _theirs(data) is None:
        assert _ours(data) is None
