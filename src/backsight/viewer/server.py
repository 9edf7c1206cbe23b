"""The viewer as a web application: a page, its parts, and answers; for this machine and whoever has the token."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backsight.runs import RunError
from backsight.viewer.answers.listing import listing
from backsight.viewer.guard import STILL, Guard
from backsight.viewer.library import Library, NoSuchThing
from backsight.viewer.page import served
from backsight.viewer.question import Answer, BadQuestion

AT_ONCE = 4
"""Questions that are answered at the same time; the others wait, so that memory stays bounded."""


def application(library: Library, token: str | None = None, port: int | None = None) -> Starlette:
    """Return the application; `token` is made up if it is not given, and kept in `state.token`.

    Only GET and HEAD are answered, only under the names of this machine, only with the token, and nothing is written.
    """
    token = token or secrets.token_urlsafe(24)
    served = _Served(library)
    routes = [
        Route("/", served.page),
        Route("/difference", served.difference),
        Route("/api/runs", served.runs),
        Route("/api/ask/{question}", served.ask),
    ]
    app = Starlette(routes=routes)
    app.add_middleware(Guard, token=token, port=port)
    app.state.token = token
    return app


class _Served:
    def __init__(self, library: Library):
        self._library = library
        self._limiter: CapacityLimiter | None = None

    async def page(self, request: Request) -> Response:
        return Response(served(), media_type="text/html")

    async def difference(self, request: Request) -> Response:
        """Show where two runs that were traced diverge: a page of its own, which runs no script and loads nothing."""
        one, other = (request.query_params.get(name, "") for name in ("run", "with"))
        return await self._answered(partial(self._library.difference, one, other), _as_page)

    async def runs(self, request: Request) -> Response:
        return await self._answered(partial(listing_of, self._library))

    async def ask(self, request: Request) -> Response:
        given = dict(request.query_params)
        name = given.pop("run", "")
        return await self._answered(partial(self._library.ask, name, request.path_params["question"], given))

    async def _answered(self, answer: Callable[[], Any], told: Callable[[Any], Response] | None = None) -> Response:
        """Answer in a thread: reading a run takes its time, and the page asks for several things at once."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(AT_ONCE)
        try:
            found = await to_thread.run_sync(answer, limiter=self._limiter)
        except NoSuchThing as error:
            return _failed(404, error)
        except BadQuestion as error:
            return _failed(400, error)
        except (RunError, OSError) as error:  # removed or damaged while it was looked at
            return _failed(410, error)
        except Exception as error:  # a run that nobody foresaw; the rest of the page still has its answers
            return _failed(500, RuntimeError(f"The viewer cannot answer this: {type(error).__name__}: {error}"))
        return _as_json(found) if told is None else told(found)


def _as_json(found: Answer) -> Response:
    return Response(json.dumps(found, allow_nan=False, separators=(",", ":")), media_type="application/json")


def _as_page(page: str) -> Response:
    return Response(page, media_type="text/html", headers={"content-security-policy": STILL})


def listing_of(library: Library) -> Answer:
    """Return a line for each run of a library; for one that cannot be read, why."""
    names = library.names()
    found = listing({name: library.run(name) for name in names})
    found["unreadable"] += [{"name": name, "why": why} for name, why in library.unreadable().items()]
    return {**found, "folder": str(library.path), "single": library.single}


def _failed(status: int, error: Exception) -> Response:
    # Not a JSONResponse: in ASCII a name may hold what is no text, such as the bytes of a folder's.
    return Response(json.dumps({"error": str(error)}), status, media_type="application/json")
