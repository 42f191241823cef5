"""Starting and ending the simulator: in this process's loop (`serve`), or as a program of its own (`run`)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable

from workbench.simulator.connection import Connection
from workbench.simulator.options import SimOptions
from workbench.simulator.service import Service
from workbench.simulator.timing import precise_event_loop

BACKLOG = 4096
"""Connections that may wait to be accepted: a burst beyond it would be resent by the kernel a second later."""


class Serving:
    """A simulator that is listening. `base_url` ends in /v1."""

    def __init__(self, server: asyncio.Server, service: Service) -> None:
        self._server = server
        self._service = service
        host, port = server.sockets[0].getsockname()[:2]
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        self.base_url = f"http://[{shown}]:{port}/v1" if ":" in shown else f"http://{shown}:{port}/v1"

    async def close(self) -> None:
        """Stop listening and close every connection, replies under way included."""
        self._server.close()
        self._service.close()
        await self._server.wait_closed()


async def serve(options: SimOptions) -> Serving:
    """Listen in the running event loop. Raises OSError when the address can't be listened on.

    Deadlines are met to about 0.1 ms only in a loop of `timing.precise_event_loop`; in a stock loop to about 1 ms.
    """
    loop = asyncio.get_running_loop()
    service = Service(options, loop)
    server = await loop.create_server(lambda: Connection(service), options.host, options.port, backlog=BACKLOG)
    return Serving(server, service)


def run(options: SimOptions) -> int:
    """Serve in the foreground until SIGTERM (0), Ctrl-C (130) or, when asked for, the end of stdin (0).

    The first line of stdout is the base URL. Gives 2, with one line on stderr, when the address can't be listened on.
    """
    try:
        with asyncio.Runner(loop_factory=precise_event_loop) as runner:
            return runner.run(_serve_until_told(options))
    except KeyboardInterrupt:
        return 130


async def _serve_until_told(options: SimOptions) -> int:
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def tell(status: int) -> None:
        if not told.done():
            told.set_result(status)

    loop.add_signal_handler(signal.SIGTERM, tell, 0)
    loop.add_signal_handler(signal.SIGINT, tell, 130)
    _allow_many_connections()
    try:
        serving = await serve(options)
    except (OSError, UnicodeError) as error:
        where = f"{options.host}:{options.port}"
        why = getattr(error, "strerror", None) or error
        print(f"workbench sim: can't listen on {where}: {why}; give another --host or --port (0: any)", file=sys.stderr)
        return 2
    if options.until_stdin_closes:
        _watch_stdin(loop, tell)
    _say(serving.base_url)
    # What start-up made stays: the collector needn't walk it again while chunks fall due.
    gc.collect()
    gc.freeze()
    try:
        return await told
    finally:
        await serving.close()


def _say(line: str) -> None:
    """Print one line; when nobody reads stdout any more, serve on all the same."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # The line is still in the buffer: without this the interpreter would fail on it again as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _watch_stdin(loop: asyncio.AbstractEventLoop, tell: Callable[[int], None]) -> None:
    """Tell 0 once stdin is at its end."""
    if sys.stdin is None:
        tell(0)
        return
    stdin = sys.stdin.fileno()

    def read() -> None:
        try:
            at_end = not os.read(stdin, 65_536)
        except OSError:
            at_end = True
        if at_end:
            loop.remove_reader(stdin)
            tell(0)

    try:
        loop.add_reader(stdin, read)
    except PermissionError:
        # epoll takes no plain file and not /dev/null; these are at their end as soon as they are read.
        tell(0)


def _allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard one: 1,024 is fewer than a large load test's connections."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
