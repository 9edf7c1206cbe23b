"""HTTP for clients that may be slow, but not forever: uvicorn by itself waits without end for the rest of a request."""

from __future__ import annotations

import asyncio
from typing import Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

ASKING = 10.0
"""Seconds that a client has for a whole request, from the connection or the last answer on."""

TAKING = 60.0
"""Seconds that a client has to take an answer; through `ssh -L` the line may be slow."""

LOOK = 0.5
"""Seconds between two looks at a connection."""

Turn = tuple[object, Literal["asking", "taking"]]


class Patient(H11Protocol):
    """A connection that is closed once its client has kept us waiting for too long.

    What counts is how long the client's turn has lasted, not when something came last: a byte a second is no request.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._turn = self._clients_turn()
        self._since = self.loop.time()
        self._next = self.loop.call_later(LOOK, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._next.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        turn, now = self._clients_turn(), self.loop.time()
        if turn is None or turn != self._turn:
            self._turn, self._since = turn, now
        elif now - self._since > (TAKING if turn[1] == "taking" else ASKING):
            self.transport.abort()  # `close` would wait until the answer is taken
            return
        self._next = self.loop.call_later(LOOK, self._look)

    def _clients_turn(self) -> Turn | None:
        """Return what we wait for the client to do; None while it waits for us."""
        if self.transport.get_write_buffer_size():
            return self.cycle, "taking"
        return None if self.cycle and not self.cycle.response_complete else (self.cycle, "asking")
