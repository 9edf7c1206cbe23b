"""`backsight view`: the viewer on a port of this machine, until it is interrupted."""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from backsight.viewer.library import Library

NEEDS = 'the viewer needs starlette and uvicorn: pip install "backsight[view]".'

LONGEST_REQUEST = 1 << 18
"""Bytes of the address and the headers of a request, in which a name of a tensor may take three for a character."""

TURN = 5e-4
"""Seconds for which one thread may keep the others from running Python. A picture is made of hundreds of short calls of
NumPy, and after each it waits that long for a thread that reads tags or looks for findings; by default 5 ms."""


class NotInstalled(ImportError):
    """What the viewer needs is not installed."""


def serve(
    path: str | Path,
    *,
    port: int = 0,
    open_browser: bool = False,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Show the runs below a folder, or one run, in a browser; returns when it is interrupted.

    port: 0 for one that is free; `ready` is called with the address, which holds the token.

    Raises:
        RunNotFound: if there is no such folder.
        NotInstalled: if the server is not installed.
        OSError: if the port is taken.
    """
    library = Library(path)
    sys.setswitchinterval(TURN)
    _give_memory_back()
    with Server(library, port) as server:
        if ready is not None:
            ready(server.url)
        threading.Thread(target=library.warm, name="backsight-warming", daemon=True).start()
        if open_browser:
            webbrowser.open(server.url)
        server.wait()


class Server:
    """A viewer that runs in a thread of its own from `with` on.

    ```python
    with Server(Library("runs")) as server:
        print(server.url)
    ```
    """

    def __init__(self, library: Library, port: int = 0):
        try:
            import uvicorn

            from backsight.viewer.patience import Patient
            from backsight.viewer.server import application
        except ImportError as error:
            raise NotInstalled(NEEDS) from error
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        app = application(library, port=self.port)
        self.token: str = app.state.token
        config = uvicorn.Config(
            app,
            http=Patient,  # over h11, which is always there, and has one limit everywhere
            ws="none",
            h11_max_incomplete_event_size=LONGEST_REQUEST,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="backsight-viewer", daemon=True)

    @property
    def url(self) -> str:
        """The address that opens the viewer; whoever has it may look at the runs."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def wait(self) -> None:
        """Wait until Ctrl-C."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            return

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        if not self._thread.is_alive():  # on a busy machine it may take longer, and then it still needs the socket
            self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _give_memory_back() -> None:
    """Have glibc keep one heap, and give back what a large array took as soon as it is freed.

    By default it keeps a heap for each thread, and raises the size from which it gives back to the largest that was
    freed, up to 32 MB: the process would hold the sum of what the busiest moments of all threads needed. A size that is
    too small costs time, as each new array then has to be zeroed by the kernel.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_ARENA_MAX, 1)
            mallopt(_M_MMAP_THRESHOLD, 8 << 20)


_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Of malloc.h."""


def _listening(port: int) -> socket.socket:
    """Return a socket on the loopback device, which no other machine can reach."""
    # Only where asyncio is told that this is TCP does it send at once; otherwise each answer waits 40 ms for the page.
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":  # there it would let two servers have one port
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", port))
    except OSError as error:
        held.close()
        raise OSError(
            f"Port {port} is not available: {error.strerror or error}. Omit --port to use a free one."
        ) from error
    held.listen(64)
    return held
