"""Who may ask: this machine under its own names, with the token, from no other page. Pages get a strict policy."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import cache
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backsight.viewer.page import sources

HOSTS = ("127.0.0.1", "localhost", "[::1]")

STILL = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
"""Of a page that has its style in it, runs nothing, and is shown within the viewer."""


@cache
def _headers() -> dict[str, str]:
    """Return the headers of every answer. The style of pages, whose hash is in them, is read for the first one."""
    policy = (
        f"default-src 'none'; {sources()}; img-src 'self' data:; connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }


_NO_TOKEN = """\
Open this viewer with the address that `backsight view` prints: it ends in ?token=... and works until the viewer stops.
"""


class Guard:
    """ASGI middleware. A request that may not be answered gets a short text, and what is behind never sees it.

    The Host header keeps out other sites whose names were made to point here (DNS rebinding), the token other users of
    this machine, and Origin and Sec-Fetch-Site pages of other sites, also those of another port. The token comes once
    in the address, moves to a cookie that scripts cannot read, and the address is put right.
    """

    def __init__(self, app: ASGIApp, token: str, port: int | None = None):
        self._app = app
        self._token = token
        self._port = port
        self._cookie = f"backsight-{port or 'viewer'}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        answer = self._refusal(scope) if scope["type"] == "http" else PlainTextResponse("Only HTTP.", 400)
        app = answer or self._entry(scope) or self._app

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _headers().items():
                    if headers.get(name) != STILL:
                        headers[name] = value
            await send(message)

        await app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return what to say to a request that is not to be answered at all."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("Only GET: the viewer is read-only.", 405, {"allow": "GET, HEAD"})
        if not self._is_here(headers.get("host", "")):
            return PlainTextResponse("This viewer only answers to 127.0.0.1 and localhost.", 421)
        origin = headers.get("origin")
        if origin is not None and not self._is_here(origin.removeprefix("http://")):
            return PlainTextResponse("Requests from other pages are not allowed.", 403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # Somebody may follow a link to here, in the chat of their team say; a page may not fetch or frame it.
            following = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            if not following or scope["path"] != "/":
                return PlainTextResponse("Requests from other pages are not allowed.", 403)
        return None

    def _entry(self, scope: Scope) -> ASGIApp | None:
        """Return what to say to a request without the cookie, or None to those that have it."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        given = query.pop("token", None)
        if given is not None and scope["path"] == "/":
            if not self._is_token(given):
                return PlainTextResponse(_NO_TOKEN, 403)
            to = "/" + (f"?{urlencode(query)}" if query else "")
            redirect = RedirectResponse(to, 303)
            redirect.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return redirect
        headers = Headers(scope=scope)
        known = (*headers.getlist("x-backsight-token"), *_cookies(headers, self._cookie))
        return None if any(map(self._is_token, known)) else PlainTextResponse(_NO_TOKEN, 403)

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _is_here(self, host: str) -> bool:
        """Whether this is one of the names of this machine, and the port that we listen on."""
        name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not colon:
            name = host
        return name in HOSTS and (self._port is None or port == str(self._port))


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    """Yield what the cookies of this name hold.

    A browser sends the cookies of every server on this host, whatever its port, and those of others need not be ones
    that `http.cookies` can read: `theme={"dark": true}`.
    """
    for cookie in ";".join(headers.getlist("cookie")).split(";"):
        key, _, value = cookie.partition("=")
        if key.strip() == name:
            yield value.strip()
