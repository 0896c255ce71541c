"""The server: an address, and a process that answers until Ctrl-C."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from mpae.errors import MPAEError
from mpae.run import Run

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORT = 8765  # the one that is tried first, and the nine after it


def serve(run: Path, images: Path | None, *, host: str = "127.0.0.1", port: int | None = None,
          announce: Callable[[str], None] = print) -> None:
    """Answer until Ctrl-C.

    Args:
        host: address to listen at; one that others can reach gets a token into the page's address.
        port: if not given, the first free one from PORT on.
        announce: called with the page's address once it can be opened.
    """
    try:
        import uvicorn

        from mpae.serve.app import make_app
    except ImportError as error:
        raise MPAEError(f"The web page needs Starlette and uvicorn ({error.name} is missing); "
                        "install them with: pip install 'mpae[serve]'.") from None
    from mpae.serve.session import Session

    token = None if host in LOOPBACK else secrets.token_urlsafe(24)
    session = Session(Run.open(run), images, samples=token is None)  # others see no more than IMAGES and the run
    listening = listen(host, port)
    app = make_app(session, hosts=("127.0.0.1", "localhost", "[::1]") if token is None else None, token=token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False,
                            limit_concurrency=200, timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    announce(address(host, listening.getsockname()[1], token))
    server.run(sockets=[listening])


def listen(host: str, port: int | None) -> socket.socket:
    """A socket at the address; raises a sentence where that is taken or is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    error: OSError | None = None
    for number in [port] if port is not None else range(PORT, PORT + 10):
        # asyncio sends small answers at once where the protocol is named; else each waits 40 ms for the one before
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
            return listening
        except OSError as found:
            listening.close()
            error = found
    place = f"port {port} of {host}" if port is not None else f"the ports {PORT} to {PORT + 9} of {host}"
    taken = error is None or error.errno in (errno.EADDRINUSE, errno.EACCES)
    way_out = ("choose another one with --port, or end what uses it" if taken else
               "give an address of this machine as --host")
    raise MPAEError(f"Cannot listen at {place}: {error.strerror if error else 'none is free'}; {way_out}.")


def address(host: str, port: int, token: str | None) -> str:
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
