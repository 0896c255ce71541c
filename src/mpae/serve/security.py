"""Who may ask for what: this machine's own browser, or whoever has the token; no other site changes anything."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "mpae-token"
MARK = "x-mpae"  # a header that only a script of the page itself can send: another site's would need our consent
SAFE = ("GET", "HEAD")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin", "cross-origin-opener-policy": "same-origin"}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """ASGI middleware: refuses strangers, and says to browsers how little the page needs."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None = None, token: str | None = None):
        """
        Args:
            hosts: names under which the server may be addressed; None is any. Another site's name that points to
                this machine is not among them, so its scripts get nothing.
            token: what every request must bring, in the address once and in a cookie afterwards.
        """
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self.refusal(scope)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            return refuse(f"This page is not served under the name '{host[:80]}'.", 421)
        if scope["method"] not in SAFE and not from_the_page(headers, host):
            return refuse("Only the page itself can change something here.", 403)
        return self._check_token(scope, headers) if self.token else None

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        given = QueryParams(scope["query_string"]).get("token")
        if given is not None and scope["method"] in SAFE and same(given, self.token or ""):
            response = RedirectResponse(scope["path"], status_code=303)
            response.set_cookie(COOKIE, given, httponly=True, samesite="strict")
            return response
        if same(cookie_parser(headers.get("cookie", "")).get(COOKIE, ""), self.token or ""):
            return None
        return refuse("This page needs the token in its address; copy the whole address that `mpae serve` printed.",
                      401)


def from_the_page(headers: Headers, host: str) -> bool:
    """Whether a request that changes something comes from our page, or from no browser at all."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
    return headers.get(MARK) == "1" and site == "same-origin" and origin in (None, f"http://{host}", f"https://{host}")


def host_name(host: str) -> str:
    """'localhost' of 'localhost:8000', '[::1]' of '[::1]:8000'."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def refuse(sentence: str, status: int) -> Response:
    return JSONResponse({"sentence": sentence}, status_code=status)
