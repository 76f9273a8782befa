"""Middleware for ASGI (FastAPI, Starlette) and WSGI (Flask, Django): verifies API keys with Developer Overview, and reports responses.

Needs the standard library alone, Python 3.9 or newer.
"""

import asyncio
import atexit
import base64
import http.client
import json
import logging
import threading
import time
import uuid
from urllib.parse import urlsplit

log = logging.getLogger("developer_overview")

REPORT_EVERY_S = 1.0
REPORTS_AT_ONCE = 500
MAX_WAITING = 10_000
OPEN_S = 600  # A response can be reported for ten minutes.
FAILURES_TO_OPEN = 5  # After this many failures in a row, the Worker is not called for a while.
PAUSE_S = 5.0
KEY_HEADERS = ("authorization", "x-api-key")


class Unreachable(Exception):
    """The Worker cannot be reached, or its answer is not a decision."""


class Rejected(Exception):
    """The Worker rejects the call itself, for example because the service token is wrong."""


def _problem(status, code, title, detail):
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}


def _denied(status, code, title, detail, headers=None):
    return {
        "allowed": False,
        "status": status,
        "code": code,
        "degraded": status == 503,
        "receipt": None,
        "account": None,
        "key": None,
        "headers": headers or {},
        "problem": _problem(status, code, title, detail),
    }


def _unavailable():
    detail = "The service cannot verify API keys right now. Try again in a moment."
    return _denied(503, "unavailable", "Unavailable", detail, {"Retry-After": "2"})


class Verifier:
    """Verifies requests and reports responses. Create one for the whole process.

    url: the origin of the Worker. token: a service token with the scope `verify`. on_unavailable: what happens to requests while the Worker
    cannot be reached, "deny" (503) or "allow". timeout: the time for one call, in seconds.
    """

    def __init__(self, url, token, on_unavailable="deny", timeout=2.0):
        if on_unavailable not in ("deny", "allow"):
            raise ValueError('on_unavailable must be "deny" or "allow"')
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("url must be the origin of the Worker")
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host = parts.netloc
        self._token = token
        self._allows = on_unavailable == "allow"
        self._timeout = timeout
        self._local = threading.local()
        self._lock = threading.Lock()
        self._waiting = []
        self._failures = 0
        self._paused_until = 0.0
        self._stopped = threading.Event()
        self._thread = None
        atexit.register(self.close)

    def verify(self, request):
        """Decides about a request. Never raises. A failed call is sent once more with the same request_id, so the request counts once."""
        if time.monotonic() < self._paused_until:
            return self._without()
        body = json.dumps({"request_id": str(uuid.uuid4()), **request})
        for attempt in (1, 2):
            try:
                answer = self._decision(body)
                self._failures = 0
                return answer
            except Rejected as error:
                log.error("Developer Overview rejected the call to verify: %s", error)
                return _unavailable()
            except Unreachable as error:
                log.warning("Developer Overview: %s", error)
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            self._paused_until = time.monotonic() + PAUSE_S
        return self._without()

    def report(self, receipt, status, duration_ms, route=None):
        """Reports the response to a request that was allowed. The report is sent within a second."""
        if not receipt:
            return
        report = {"receipt": receipt, "status": status, "duration_ms": max(0, duration_ms)}
        if route:
            report["route"] = route[:200]
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.pop(0)
            self._waiting.append((time.monotonic(), report))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def close(self):
        """Sends all reports that wait. It also runs when the process ends."""
        self._stopped.set()
        while self._waiting:
            before = len(self._waiting)
            self._send()
            if len(self._waiting) >= before:
                break

    def _without(self):
        if not self._allows:
            return _unavailable()
        return {**_unavailable(), "allowed": True, "status": 200, "code": None, "headers": {}, "problem": None}

    def _decision(self, body):
        status, text = self._post("/verify", body)
        if status >= 500 or status == 429:
            raise Unreachable(f"the Worker responded with {status}")
        if status != 200:
            raise Rejected(f"{status} {text[:500]!r}")
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise Unreachable("the answer is not JSON") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("allowed"), bool):
            raise Unreachable("the answer is not a decision")
        return answer

    def _post(self, path, body):
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        kept = getattr(self._local, "connection", None)
        connection = kept or self._connect(self._host, timeout=self._timeout)
        self._local.connection = None
        try:
            connection.request("POST", "/operator/api" + path, body, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"the Worker cannot be reached: {error}") from error
        if response.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return response.status, text

    def _run(self):
        while not self._stopped.wait(REPORT_EVERY_S):
            self._send()

    def _send(self):
        with self._lock:
            now = time.monotonic()
            self._waiting = [(at, report) for at, report in self._waiting if now < at + OPEN_S]
            batch, self._waiting = self._waiting[:REPORTS_AT_ONCE], self._waiting[REPORTS_AT_ONCE:]
        if not batch:
            return
        try:
            status, text = self._post("/reports", json.dumps({"reports": [report for _, report in batch]}))
            if status != 200:
                raise Unreachable(f"the Worker responded with {status}")
            data = json.loads(text)["data"]
            # The log writer of these entries could not be reached. All other results are final.
            left = [item for item, result in zip(batch, data) if result["status"] == 503]
        except (Unreachable, ValueError, KeyError) as error:
            log.warning("Developer Overview: %d reports wait: %s", len(batch), error)
            left = batch
        if left:
            with self._lock:
                self._waiting[:0] = left


def _token_of(value):
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(rest).decode().partition(":")
            return password or user
        except ValueError:
            return value
    return value.strip()


class _Middleware:
    def __init__(self, app, verifier, scope=None, cost=None, key_headers=KEY_HEADERS, client_ip=None):
        self.app = app
        self.verifier = verifier
        self.options = {name: value for name, value in (("scope", scope), ("cost", cost)) if value is not None}
        self.key_headers = [name.lower() for name in key_headers]
        self.client_ip = client_ip

    def _request(self, headers, method, path, ip):
        sent = [headers[name] for name in self.key_headers if headers.get(name)]
        if len({_token_of(value) for value in sent}) > 1:
            return None
        request = {"key": sent[0] if sent else "", "method": method, "path": path or "/", **self.options}
        if ip:
            request["ip"] = ip
        return request


_CONFLICT = _denied(400, "invalid_header", "Invalid header", "The request has two different credentials.")


def _headers_of(answer):
    return {**answer["headers"], "Content-Type": "application/problem+json", "Cache-Control": "no-store"}


def _verified(answer):
    return {"account": answer["account"], "key": answer["key"], "degraded": answer["degraded"]}


class AsgiMiddleware(_Middleware):
    """Middleware for ASGI. The handler finds the account and the key in scope["state"]["verified"], in FastAPI request.state.verified."""

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = time.monotonic()
        named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        scope = dict(scope, headers=[pair for pair in scope["headers"] if not pair[0].lower().startswith(b"x-verified-")])
        client = scope.get("client")
        ip = self.client_ip(scope) if self.client_ip else (client[0] if client else None)
        request = self._request(dict(named), scope["method"], scope["path"], ip)
        answer = _CONFLICT if request is None else await asyncio.to_thread(self.verifier.verify, request)
        if not answer["allowed"]:
            headers = [(name.encode(), value.encode()) for name, value in _headers_of(answer).items()]
            await send({"type": "http.response.start", "status": answer["status"], "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(answer["problem"]).encode()})
            return None
        scope["state"] = {**scope.get("state", {}), "verified": _verified(answer)}
        status = 500

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [(name.encode(), value.encode()) for name, value in answer["headers"].items()]
                message = dict(message, headers=[*message.get("headers", []), *added])
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.verifier.report(answer["receipt"], status, (time.monotonic() - started) * 1000, route)


class WsgiMiddleware(_Middleware):
    """Middleware for WSGI. The handler finds the account and the key in environ["developer_overview.verified"]. route: a function of environ."""

    def __init__(self, app, verifier, route=None, **options):
        super().__init__(app, verifier, **options)
        self.route = route or (lambda environ: environ.get("developer_overview.route"))

    def __call__(self, environ, start_response):
        started = time.monotonic()
        headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
        environ = {name: value for name, value in environ.items() if not name.startswith("HTTP_X_VERIFIED_")}
        ip = self.client_ip(environ) if self.client_ip else environ.get("REMOTE_ADDR")
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        request = self._request(headers, environ["REQUEST_METHOD"], path, ip)
        answer = _CONFLICT if request is None else self.verifier.verify(request)
        if not answer["allowed"]:
            phrase = http.client.responses.get(answer["status"], "")
            start_response(f"{answer['status']} {phrase}", list(_headers_of(answer).items()))
            return [json.dumps(answer["problem"]).encode()]
        environ["developer_overview.verified"] = _verified(answer)
        sent = {"status": 500}

        def start(status, response_headers, exc_info=None):
            sent["status"] = int(status.split(" ", 1)[0])
            return start_response(status, [*response_headers, *answer["headers"].items()], exc_info)

        def report():
            self.verifier.report(answer["receipt"], sent["status"], (time.monotonic() - started) * 1000, self.route(environ))

        try:
            body = self.app(environ, start)
        except Exception:
            report()
            raise
        return _Reported(body, report)


class _Reported:
    """The body of a response. The response is reported when the server closes the body."""

    def __init__(self, body, report):
        self._body = body
        self._report = report

    def __iter__(self):
        return iter(self._body)

    def close(self):
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._report()
