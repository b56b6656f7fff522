"""Starting and stopping the server; accepted requests are answered before it stops."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from firth.core.errors import FirthError
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import ServedModels

_DRAIN_S = 0.2  # for connections that the kernel has accepted already


class _Uvicorn(uvicorn.Server):
    """Stops on the first signal when everybody has an answer, on the second at once; exit code 0 either way."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self.server = server

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.server.close()  # new requests get 503
        if not self.force_exit:
            await asyncio.sleep(_DRAIN_S)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket, bound before any model is loaded, so that a port in use is found out at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # with its protocol: asyncio switches Nagle's algorithm off only then, and answers would wait 40 ms
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        raise FirthError(
            f"{host}:{port}: cannot be listened on ({error.strerror}); choose another --port or --host"
        ) from None
    return found


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(
    models: ServedModels, settings: ServeSettings, bound: socket.socket, ready: Callable[[], None] | None = None
) -> None:
    """Until a signal says stop; ``ready`` is called when requests are answered."""
    logging.getLogger("firth.serve").setLevel(logging.WARNING)
    server = Server(models, settings)
    config = uvicorn.Config(
        server.app,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=30,
        backlog=1024,
    )
    server.start()
    bound.listen(1024)
    if ready is not None:
        ready()
    try:
        _Uvicorn(config, server).run([bound])
    finally:
        server.finish()
