"""Twenty clients at once on 127.0.0.1: all are answered, in turn, with bounded memory."""

from __future__ import annotations

import io
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import uvicorn
from pictures import draw_photo

from mpae.serve.app import make_app
from mpae.serve.session import Session

CLIENTS = 20


def test_twenty_clients(session: Session) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(session, hosts=("127.0.0.1",)), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    content = io.BytesIO()
    draw_photo(1, (2000, 1500)).save(content, "BMP")  # nine megabytes each

    def visit(number: int) -> list[int]:
        with httpx.Client(base_url=address, headers={"x-mpae": "1"}, timeout=120) as client:
            answers = [client.get("/api/state"), client.get("/api/tiles?rows=" + ",".join(map(str, range(14)))),
                       client.post("/api/upload", content=content.getvalue())]
            answers += [client.get(f"/thumbnail/{(number + row) % 14}") for row in range(14)]
            return [answer.status_code for answer in answers]

    try:
        visit(0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ThreadPoolExecutor(CLIENTS) as pool:
            found = list(pool.map(visit, range(CLIENTS)))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024  # megabytes, of clients too
    finally:
        server.should_exit = True
        thread.join(timeout=60)
    assert {status for statuses in found for status in statuses} == {200}
    assert grown < 600
