"""Middleware for ASGI (FastAPI, Starlette) and WSGI (Flask, Django): verifies API keys with Developer Overview, and reports responses.

Needs the standard library alone, Python 3.9 or newer.
"""

import asyncio
import atexit
import base64
import collections
import concurrent.futures
import contextlib
import datetime
import errno
import hashlib
import http.client
import inspect
import ipaddress
import itertools
import json
import logging
import math
import os
import queue
import re
import socket
import ssl
import sys
import threading
import time
import uuid
import weakref
from urllib.parse import quote, unquote, urlsplit

log = logging.getLogger("developer_overview")

API = "/team/v1"
# The name, the version and the number of the protocol (integrations/protocol.md) of this client.
USER_AGENT = "developer-overview-python/0.1.0 (protocol 1)"
KEY_HEADERS = ("authorization", "x-api-key")
MAX_KEY = 4096
MAX_PATH = 1024
MIN_SECRET = 4  # A shorter text is no secret.
# The calls at the same time, and the requests that wait for one of them: for one credential, for one account, and for one event loop. A loop has as
# many connections as calls.
OF_CREDENTIAL, OF_ACCOUNT, OF_LOOP = (16, 112), (16, 496), (256, 4096)
# The same for all threads. A thread of a WSGI server waits at most this long for each slot.
OF_THREADS, THREAD_WAITS_S = (64, 0), 0.1
MAX_ACCOUNTS = 10_000
PROBES, PROBE_S, BETWEEN_PROBES_S = 3, 1.0, 0.1
# While the Worker is away, it is called at most once in this time: in the mode `known` to end soon, in the mode `deny` to spare it.
PAUSE_S = {"deny": 5.0, "known": 1.0}
KNOWN_S, MAX_KNOWN, MAX_ADDRESSES = 600, 10_000, 16
REPORT_EVERY_S, REPORTS_AT_ONCE, REPORT_TIMEOUT_S = 1.0, 500, 10.0
MAX_WAITING = 20_000
OPEN_S = 600  # A response can be reported for ten minutes.
STREAM_S = 570  # A response that still runs is reported before that.
MAX_GROUPS = 500  # The groups of findings of shadow mode that wait.
BESIDE_THREADS, MAX_BESIDE = 64, 1000  # The threads that decide in shadow mode, and the requests that wait for one of them.
MAX_HALVINGS = 100  # A batch is halved at most this often until the next second.
IDLE_S = 30.0  # A connection that nobody has used for this time is closed.
LAST_S = 2.0  # The time for the last calls of a process that ends.
QUIET_S = 10.0  # The time between two lines in the log.

_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}")
_BASIC = re.compile(r"basic(?:\s+|$)", re.IGNORECASE)
# The schemes that are followed by the credential itself, and the form in which Rails sends a token.
_SCHEME = re.compile(r"(?:bearer|token|api-?key)(?:\s+|$)", re.IGNORECASE)
# Separates the values of a header that was sent several times, but no parameters like those of `Token token="...", nonce="..."`.
_JOINED = re.compile(r",(?!\s*[\w-]+=[^,=])")
_TOKEN_PARAMETER = re.compile(r'(?:^|[\s;,])token=(?:"([^"]*)"|([^\s;,]*))', re.IGNORECASE)
# The names that servers for CGI, WSGI, PHP or Rack read as X-Verified-*.
_OF_VERIFIED = re.compile(r"x[^a-z0-9]verified[^a-z0-9]", re.IGNORECASE)


# Failures of this machine. Clients can bring them about with many connections, so they never show that the Worker is away.
_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN)


class NoDecision(Exception):
    """A call without a decision. is_lost: the connection failed. is_local: this machine failed. again: the call can be sent once more."""

    def __init__(self, message, is_lost=False, is_local=False, again=False):
        super().__init__(message)
        self.is_lost, self.is_local, self.again = is_lost, is_local, again


def _failure(error):
    """Returns why a call failed. Only a connection that was refused or broken is lost. A time-out says nothing about other calls."""
    if isinstance(error, (TimeoutError, asyncio.TimeoutError, socket.timeout)):
        return NoDecision("the Worker did not respond in time")
    is_local = getattr(error, "errno", None) in _OF_MACHINE
    return NoDecision(f"the Worker cannot be reached: {error!r}", is_lost=not is_local, is_local=is_local, again=True)


def _can_open():
    """Returns whether this process can open files. If it cannot, looking up a name fails as if there were no such name."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def _denied(status, code, title, detail, headers=None):
    return {
        "allowed": False,
        "status": status,
        "code": code,
        "degraded": status == 503,
        "request_id": "",
        "receipt": None,
        "account": None,
        "key": None,
        "rate_limits": [],
        "headers": headers or {},
        "problem": {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code},
    }


def _unavailable(seconds=1.0):
    detail = "The service cannot verify API keys right now. Try again in a moment."
    return _denied(503, "unavailable", "Unavailable", detail, {"Retry-After": str(max(1, math.ceil(seconds)))})


_CONFLICT = _denied(400, "invalid_header", "Invalid header", "The request has two different credentials.")
_TOO_LONG = _denied(
    401,
    "invalid_key",
    "API key invalid",
    f"A credential has at most {MAX_KEY:,} characters.",
    {"WWW-Authenticate": 'Bearer realm="api", error="invalid_token"'},
)


def address_in(text):
    """Returns an address without port, brackets and zone, and an IPv4 address without its IPv6 form. Returns "" for other text."""
    text = (text or "").strip()
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::\d+)?", text)
    text = (bracketed.group(1) if bracketed else text).partition("%")[0]
    text = re.sub(r"^([\d.]+):\d+$", r"\1", text)
    text = re.sub(r"^::ffff:(?=[\d.]+$)", "", text, flags=re.IGNORECASE)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return ""
    return text


def _described(method=None, path=None, ip=None, **rest):
    """Returns the members of a call. Path, method and address only describe the request: they are cut or left out."""
    shown = re.sub(r"%[0-9A-Fa-f]?$", "", (path or "").partition("?")[0][:MAX_PATH])
    address = address_in(ip)
    if method and _METHOD.fullmatch(method):
        rest["method"] = method
    if shown:
        rest["path"] = shown
    if address:
        rest["ip"] = address
    return rest


def _tokens_of(value):
    """Returns the tokens in a credential, without its scheme. Only the form of Rails can have several."""
    text = value.strip()
    scheme = _SCHEME.match(text)
    if not scheme:
        return [text]
    token = text[scheme.end() :].strip()
    if not token.lower().startswith("token="):
        return [token]
    return [quoted or plain for quoted, plain in _TOKEN_PARAMETER.findall(token)]


def _credentials_in(value):
    """Returns what may be the credential in the value of a header: the token, or the user and the password of Basic."""
    text = value.strip()
    basic = _BASIC.match(text)
    if not basic:
        return [each for each in _tokens_of(text) if each]
    encoded = text[basic.end() :].replace("-", "+").replace("_", "/").rstrip("=")
    try:
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode("utf-8", "replace")
    except ValueError:
        return [text]
    user, _, password = decoded.partition(":")
    return [each for each in (user, password) if each]


def credential_of(values):
    """Returns the one credential in the values of headers, "" if there is none, or None if there are two different ones."""
    filled = [part for value in values for part in _JOINED.split(value) if _credentials_in(part)]
    if not filled:
        return ""
    if any(len(set(_credentials_in(value))) > 1 and not _BASIC.match(value.strip()) for value in filled):
        return None
    if not set.intersection(*(set(_credentials_in(value)) for value in filled)):
        return None
    # Only the Worker can tell which part of Basic is the credential.
    return next((value for value in filled if _BASIC.match(value.strip())), filled[0])


def _without_credentials(path, values):
    """Returns a path in which no credential can be read. values: those of the headers in which it may be."""
    secrets = [secret for value in values for part in _JOINED.split(value) for secret in _credentials_in(part) if len(secret) >= MIN_SECRET]
    for secret in secrets:
        path = path.replace(secret, "***")
    # A client can encode characters of it.
    return "/***" if any(secret in unquote(path) for secret in secrets) else path


def _id_of(key):
    """Returns the id under which this process knows a credential. The text itself is never kept."""
    token = next((each for each in _tokens_of(key) if each), "")
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _time_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _has_scopes(own, request):
    """Returns whether a key with these scopes may do what a request needs."""
    several = request.get("scopes") or {}
    needed = [*([request["scope"]] if request.get("scope") else []), *(several.get("all") or [])]
    any_of = several.get("any") or []
    return set(needed) <= set(own) and (not any_of or bool(set(any_of) & set(own)))


class _Known:
    """What a process remembers for on_unavailable="known": the credentials that it was allowed to serve within the last ten minutes."""

    def __init__(self):
        self._lock = threading.Lock()
        self._credentials = collections.OrderedDict()

    def note(self, key_id, ip, answer, text):
        """Notes an answer of the Worker. text: the answer as it came, because a handler may change its own copy."""
        with self._lock:
            if answer["status"] in (401, 403, 422):
                self._credentials.pop(key_id, None)
            known = self._credentials.get(key_id)
            if answer["status"] == 429 and known:
                known["denied_until"] = time.time() + float(answer["headers"].get("Retry-After", KNOWN_S))
            if not answer["allowed"] or not answer["account"] or not answer["key"]:
                return
            known = known or {"addresses": collections.OrderedDict(), "denied_until": 0.0}
            used_up = [_time_of(each["resets_at"]) for each in answer.get("rate_limits", []) if each["remaining"] <= 0]
            known["text"] = text
            known["denied_until"] = max([known["denied_until"], *used_up])
            known["addresses"].pop(ip, None)
            known["addresses"][ip] = time.time()
            self._credentials[key_id] = known
            self._credentials.move_to_end(key_id)
            for full, most in ((known["addresses"], MAX_ADDRESSES), (self._credentials, MAX_KNOWN)):
                if len(full) > most:
                    full.popitem(last=False)

    def find(self, key_id, request):
        """Returns the account and the key of a request that may pass without the Worker, or None."""
        with self._lock:
            now = time.time()
            known = self._credentials.get(key_id)
            if known is None or not 0 <= now - known["addresses"].get(request.get("ip", ""), 0) < KNOWN_S or known["denied_until"] > now:
                return None
            answer = json.loads(known["text"])
        key = answer["key"]
        if key["expires_at"] is not None and _time_of(key["expires_at"]) <= now:
            return None
        return {"account": answer["account"], "key": key} if _has_scopes(key["scopes"], request) else None


class _Reports:
    """The reports that wait. One report that the Worker does not accept never holds the others back."""

    # Statuses that say nothing about the reports themselves. The batch waits.
    WAITS = (401, 403, 404, 408, 429)

    def __init__(self, post, say):
        self._post, self._say = post, say
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting = []
        self._dropped = 0

    def stats(self):
        return {"waiting": len(self._waiting), "dropped": self._dropped}

    def add(self, receipt, status, duration_ms, route, streaming=False):
        status = status if isinstance(status, int) and 100 <= status <= 599 else 599
        duration_ms = min(max(0, duration_ms), 86_400_000) if isinstance(duration_ms, (int, float)) and duration_ms == duration_ms else 0
        report = {"receipt": receipt, "status": status, "duration_ms": duration_ms}
        if streaming:
            report["streaming"] = True
        if route:
            # The Worker counts characters in UTF-16.
            report["route"] = str(route).encode("utf-16-le", "surrogatepass")[:400].decode("utf-16-le", "replace")
        with self._lock:
            self._waiting.append((time.time(), report))
            self._bound()

    def flush(self):
        """Sends all reports that wait. Returns when they are sent, or when the Worker does not take them now."""
        with self._sending:
            later = []
            batches = []
            halvings = 0
            # What comes meanwhile goes with the next flush, so that each flush ends.
            left = len(self._waiting)
            while batches or left > 0:
                if batches:
                    batch = batches.pop()
                else:
                    batch = self._take(left)
                    left = left - len(batch) if batch else 0
                if not batch:
                    break
                results = None if halvings > MAX_HALVINGS else self._results(batch)
                if results is None:
                    later += batch + [each for rest in reversed(batches) for each in rest]
                    break
                if results == "refused":
                    halvings += 1
                    half = (len(batch) + 1) // 2
                    if len(batch) == 1:
                        self._dropped += 1
                    else:
                        batches += [batch[half:], batch[:half]]
                    continue
                results += [{}] * (len(batch) - len(results))
                # 503: the log writer of these entries could not be reached. All other results are final.
                later += [each for each, result in zip(batch, results) if result.get("status") == 503]
                self._dropped += sum(result.get("status") not in (200, 503) for result in results[: len(batch)])
            with self._lock:
                self._waiting[:0] = later
                self._bound()

    def _bound(self):
        over = len(self._waiting) - MAX_WAITING
        if over > 0:
            self._dropped += over
            del self._waiting[:over]

    def _take(self, most):
        with self._lock:
            now = time.time()
            waiting = [(at, report) for at, report in self._waiting if now < at + OPEN_S]
            self._dropped += len(self._waiting) - len(waiting)
            count = min(REPORTS_AT_ONCE, most)
            self._waiting = waiting[count:]
            return waiting[:count]

    def _results(self, batch):
        """Returns the results of a batch, "refused" if the Worker does not accept it as it is, or None if the batch has to wait."""
        try:
            status, text = self._post(json.dumps({"reports": [report for _, report in batch]}))
            if status == 200:
                data = json.loads(text)["data"]
                return list(data) if isinstance(data, list) else None
        except (NoDecision, ValueError, KeyError, TypeError) as error:
            self._say(f"{len(batch)} reports wait: {error!r}")
            return None
        self._say(f"the Worker responded to {len(batch)} reports with {status}")
        return "refused" if 400 <= status < 500 and status not in self.WAITS else None


class _Shadow:
    """What shadow mode has found, in groups: every request runs, and the service is told what it would have decided."""

    def __init__(self, post, say):
        self._post, self._say = post, say
        self._holder = f"{socket.gethostname()[:60]}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._lock, self._sending = threading.Lock(), threading.Lock()
        # A message that was lost is sent again with the same number, so that it counts once.
        self._groups, self._sequence, self._sent = {}, 0, None
        self.dropped = 0

    def stats(self):
        return {"waiting": len(self._groups), "dropped": self.dropped}

    def note(self, answer, own, key, method, path):
        """Notes a decision. own: what the team's own check has said, or None."""
        said = "not_compared" if own is None else "allowed" if own else "denied"
        # Requests about which nobody disagrees are only counted.
        is_ordinary = answer["allowed"] and own is not False
        account, key_named = (None if is_ordinary else (answer[name] or {}).get("id") for name in ("account", "key"))
        credential = _id_of(key).hex()[:16] if own and answer["code"] == "invalid_key" else None
        group = (account, key_named, None if answer["allowed"] else answer["code"], said, credential)
        with self._lock:
            if group not in self._groups and len(self._groups) >= MAX_GROUPS:
                self.dropped += 1
                return
            count = self._groups.get(group, (0,))[0] + 1
            self._groups[group] = (count, str(method)[:32], path.partition("?")[0][:MAX_PATH])

    def flush(self):
        """Sends what waits. Returns when it is sent, or when the Worker does not take it now."""
        with self._sending:
            # A message that was lost, and then what waits. What comes meanwhile goes with the next flush.
            for _ in range(2 if self._sent else 1):
                if not (self._sent or self._take()):
                    return
                try:
                    status, text = self._post(json.dumps(self._sent))
                except NoDecision as error:
                    return self._say(error)
                if status != 204:
                    self._say(f"the Worker responded to findings of shadow mode with {status}: {text[:500]!r}")
                    if status >= 500 or status in _Reports.WAITS:
                        return
                    self.dropped += len(self._sent["findings"])
                self._sent = None

    def _take(self):
        with self._lock:
            names = ("account", "key", "code", "own", "credential", "count", "method", "path")
            findings = [dict(zip(names, (*group, *latest))) for group, latest in self._groups.items()]
            self._groups, self._sequence = {}, self._sequence + bool(findings)
        self._sent = {"holder": self._holder, "sequence": self._sequence, "findings": findings} if findings else None
        return self._sent


class _Pool:
    """Threads that end with the process. A process that ends would wait for those of concurrent.futures."""

    def __init__(self, threads, most):
        self._max_threads, self._most = threads, most
        self._lock, self._work = threading.Lock(), queue.SimpleQueue()
        self._threads = self.pending = 0

    def run(self, work):
        """Returns the future of work, or None if too much waits or this machine has no thread left."""
        future = concurrent.futures.Future()
        with self._lock:
            if self.pending >= self._most:
                return None
            if self._threads <= self.pending and self._threads < self._max_threads:
                try:
                    threading.Thread(target=self._run, daemon=True).start()
                    self._threads += 1
                except RuntimeError:
                    if self._threads == 0:
                        return None
            self.pending += 1
        self._work.put((future, work))
        return future

    def _run(self):
        while True:
            future, work = self._work.get()
            try:
                result = work()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            with self._lock:
                self.pending -= 1


class _Slots:
    """A bound on what runs at the same time in one event loop. What exceeds it waits in a line, which has a bound too."""

    def __init__(self, count, max_waiting):
        self._free, self._max_waiting, self._line = count, max_waiting, collections.deque()

    async def run(self, deadline, work):
        """Runs work in a slot, and returns its result, or None if no slot is free before the deadline."""
        if not await self._take(deadline):
            return None
        try:
            return await work()
        finally:
            self._give()

    async def _take(self, deadline):
        if self._free > 0:
            self._free -= 1
            return True
        if len(self._line) >= self._max_waiting:
            return False
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._line.append(turn)
        timer = loop.call_later(max(0, deadline - time.monotonic()), self._end, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._give()
            raise
        finally:
            timer.cancel()

    def _end(self, turn):
        if not turn.done():
            turn.set_result(False)
            self._line.remove(turn)

    def _give(self):
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._free += 1


class _ThreadSlots:
    """A bound on the threads that wait at the same time. The others give up soon, so that the server can use them for other customers."""

    def __init__(self, count, _):
        self._slots = threading.Semaphore(count)

    async def run(self, deadline, work):
        if not self._slots.acquire(timeout=max(0, min(THREAD_WAITS_S, deadline - time.monotonic()))):
            return None
        try:
            return await work()
        finally:
            self._slots.release()


class _Caller:
    """How requests reach the Worker. It shares the slots between customers.

    The calls of an account have one bound for all its keys. The credentials whose account is not known yet share half of all slots, so made-up
    credentials leave the other half free.
    """

    def __init__(self, slots, of_all):
        self._lock = threading.Lock()
        self._slots, self._of_all = slots, of_all
        # The accounts of credentials, in the order of use.
        self._accounts = collections.OrderedDict()
        # The bounds that requests use now.
        self._used = {}

    async def in_slot(self, key_id, deadline, ask):
        """Calls ask with the record of the credential. Returns None if there is no slot before the deadline."""

        async def in_share(credential):
            account = self._accounts.get(key_id)
            name, bound = ("unknown", [count // 2 for count in self._of_all]) if account is None else (account, OF_ACCOUNT)
            return await self._within(name, bound, deadline, lambda _: self._within("all", self._of_all, deadline, lambda _: ask(credential)))

        return await self._within(key_id, OF_CREDENTIAL, deadline, in_share)

    def note(self, key_id, answer):
        """Notes the account that an answer names. A 401 removes it, so a revoked key cannot take the slots of its account."""
        with self._lock:
            known = self._accounts.pop(key_id, None)
            account = (answer.get("account") or {}).get("id", known)
            if answer["status"] == 401 or account is None:
                return
            self._accounts[key_id] = account
            if len(self._accounts) > MAX_ACCOUNTS:
                self._accounts.popitem(last=False)

    async def _within(self, name, bound, deadline, work):
        with self._lock:
            used = self._used.get(name)
            if used is None:
                used = self._used[name] = {"slots": self._slots(*bound), "users": 0, "denied_at": -math.inf}
            used["users"] += 1
        try:
            return await used["slots"].run(deadline, lambda: work(used))
        finally:
            with self._lock:
                used["users"] -= 1
                if used["users"] == 0:
                    del self._used[name]


class _Address:
    """The origin of the Worker, and what a call to it needs."""

    def __init__(self, url, token):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be the origin of the Worker")
        self.host, self.port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self.ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self.headers = {"Host": parts.netloc.rpartition("@")[2], "Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": USER_AGENT}


class _Threads(_Caller):
    """Calls the Worker from threads, each with a connection of its own."""

    def __init__(self, address, answered):
        super().__init__(_ThreadSlots, OF_THREADS)
        self._address, self._answered = address, answered
        self._local = threading.local()

    def _connection(self, seconds):
        address = self._address
        if address.ssl:
            return http.client.HTTPSConnection(address.host, address.port, timeout=seconds, context=address.ssl)
        return http.client.HTTPConnection(address.host, address.port, timeout=seconds)

    def post(self, path, body, seconds, method="POST"):
        until = time.monotonic() + seconds
        connection = getattr(self._local, "connection", None) or self._connection(seconds)
        self._local.connection = None
        has_answer = False
        try:
            if connection.sock:
                connection.sock.settimeout(seconds)
            connection.request(method, path, body, self._address.headers)
            used = connection.sock
            used.settimeout(max(0.001, until - time.monotonic()))
            response = connection.getresponse()
            has_answer = True
            self._answered()
            if not response.isclosed():
                used.settimeout(max(0.001, until - time.monotonic()))
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoDecision("the answer is not complete", again=True) if has_answer else _failure(error) from error
        if response.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return response.status, text

    async def call(self, path, body, seconds, is_again):
        return self.post(path, body, seconds)

    async def wait(self, future, seconds):
        concurrent.futures.wait([future], max(0, seconds))


class _Loop(_Caller):
    """Calls the Worker from one event loop, over connections of its own. No thread waits for an answer, and the loop's executor is not used."""

    def __init__(self, address, answered):
        super().__init__(_Slots, OF_LOOP)
        self._address, self._answered = address, answered
        self._idle = []
        self._resolver = _Pool(1, 16)
        self._lookup = None

    async def call(self, path, body, seconds, is_again):
        try:
            return await asyncio.wait_for(self._post(path, body, is_again), seconds)
        except (OSError, asyncio.TimeoutError) as error:
            raise _failure(error) from error

    async def wait(self, future, seconds):
        await asyncio.wait([asyncio.wrap_future(future)], timeout=max(0, seconds))

    async def _post(self, path, body, is_again):
        data = body.encode()
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in self._address.headers.items())]
        reader, writer = self._kept(is_again) or await self._connect()
        keeps = False
        try:
            writer.write("\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode("latin-1") + data)
            status, headers = await self._head(reader)
            try:
                text = await self._body(reader, headers)
            except (EOFError, ValueError, OSError) as error:
                raise NoDecision("the answer is not complete", again=True) from error
            keeps = "close" not in headers.get("connection", "") and ("content-length" in headers or "transfer-encoding" in headers)
            return status, text
        finally:
            if keeps:
                self._idle.append((time.monotonic(), reader, writer))
            else:
                writer.close()

    def _kept(self, is_again):
        """Returns a connection that was used a moment ago. Networks forget those that are quiet, so a call that failed takes a new one."""
        while self._idle and not is_again:
            used_at, reader, writer = self._idle.pop()
            if time.monotonic() - used_at < IDLE_S and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None

    async def _connect(self):
        if self._lookup is None or self._lookup.done():
            found = self._resolver.run(lambda: socket.getaddrinfo(self._address.host, self._address.port, 0, socket.SOCK_STREAM))
            if found is None:
                raise NoDecision("this machine has no thread left", is_local=True, again=True)
            self._lookup = asyncio.wrap_future(found)
            self._lookup.add_done_callback(lambda done: done.cancelled() or done.exception())
        failure = OSError("the name has no address")
        for *_, (host, port, *_) in await asyncio.shield(self._lookup):
            try:
                name = self._address.host if self._address.ssl else None
                return await asyncio.open_connection(host, port, ssl=self._address.ssl, server_hostname=name)
            except OSError as error:
                failure = error
        raise failure

    async def _head(self, reader):
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                status = int(head[0].split(" ")[1])
            except (EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
                raise ConnectionError("the Worker closed the connection") from error
            self._answered()
            if status >= 200:
                named = (line.partition(":") for line in head[1:] if line)
                return status, {name.strip().lower(): value.strip().lower() for name, _, value in named}

    @staticmethod
    async def _body(reader, headers):
        if "transfer-encoding" not in headers:
            return await (reader.readexactly(int(headers["content-length"])) if "content-length" in headers else reader.read())
        chunks = []
        while True:
            size = int((await reader.readline()).partition(b";")[0], 16)
            if size == 0:
                break
            chunks.append((await reader.readexactly(size + 2))[:-2])
        while (await reader.readline()).strip():
            pass
        return b"".join(chunks)


class Verifier:
    """Verifies requests and reports responses. Create one for the whole process.

    url: the origin of the Worker. token: a service token with the scope `verify`. on_unavailable: what happens to requests while no connection
    to the Worker can be made, "deny" (503) or "known". timeout: the time for one decision, in seconds. on_decision: a function that gets each answer.
    logger: has the method `warning`.
    """

    def __init__(self, url, token, on_unavailable="deny", timeout=1.0, on_decision=None, logger=log):
        if on_unavailable == "allow":
            raise ValueError(
                'on_unavailable="allow" would let requests through that nobody has checked. '
                'Use "known": it lets credentials through that were allowed before.'
            )
        if on_unavailable not in PAUSE_S:
            raise ValueError('on_unavailable must be "deny" or "known"')
        self._address = _Address(url, token)
        self.timeout = timeout
        self._on_decision = on_decision
        self._log = logger
        self._counts = {"decisions": 0, "denied": 0, "degraded": 0}
        self._known = _Known() if on_unavailable == "known" else None
        self._pause = PAUSE_S[on_unavailable]
        self._restart()
        if hasattr(os, "register_at_fork"):
            own = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: own() and own()._restart())
        self._answers = 0
        self._is_away = False
        self._probe_at = 0.0
        self._unsaid = 0
        self._quiet_until = 0.0
        atexit.register(self.close)

    def _restart(self):
        """Begins with nothing that another process uses: its connections, its locks, its thread, and the reports that it sends itself."""
        self._call_s = REPORT_TIMEOUT_S
        self._threads = _Threads(self._address, self._answered)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._reports = _Reports(lambda body: self._threads.post(API + "/reports", body, self._call_s), self.say)
        self._shadow = _Shadow(lambda body: self._threads.post(API + "/shadow", body, self._call_s), self.say)
        self._beside = _Pool(BESIDE_THREADS, MAX_BESIDE)
        # The responses that run, the oldest first, and those of each credential.
        self._running, self._running_of = {}, {}
        self._stopped = threading.Event()
        self._thread = None
        self._probing = None
        self._limiter = None

    def verify(self, request):
        """Decides about a request, within the time for a decision. Never raises."""
        return _ended(self._decide(request, self._threads))

    async def verify_async(self, request):
        """Decides about a request like verify, without blocking the event loop of asyncio or trio."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            trio = sys.modules["trio"]
            self._limiter = self._limiter or trio.CapacityLimiter(OF_LOOP[0])
            return await trio.to_thread.run_sync(self.verify, request, limiter=self._limiter)
        if getattr(self._local, "loop", None) is not loop:
            self._local.loop, self._local.caller = loop, _Loop(self._address, self._answered)
        return await self._decide(request, self._local.caller)

    def beside(self, decide, own, key, method, path):
        """Decides in a thread, and notes what shadow mode finds. Returns the future of the receipt, or None if too many requests wait."""

        def work():
            try:
                answer = decide()
                if not answer.get("passes"):
                    self._shadow.note(answer, own, key, method, path)
                return answer["receipt"]
            except Exception as error:  # A function of the team that fails changes nothing in shadow mode.
                self.say(f"shadow mode has failed: {error!r}")

        self._start()
        found = self._beside.run(work)
        self._shadow.dropped += found is None
        return found

    def report(self, receipt, status, duration_ms, route=None, streaming=False):
        """Reports the response to a request that was allowed. The report is sent within a second."""
        if receipt:
            self._reports.add(receipt, status, duration_ms, route, streaming)
            self._start()

    def follow(self, answer, key, on_denied=lambda: None):
        """Returns the response to an admitted request. on_denied: is called when a later decision denies the key."""
        response = _Response(self, answer, on_denied)
        if answer.get("passes"):
            return response
        response.key_id = _id_of(key)
        with self._lock:
            self._running[response] = self._running_of.setdefault(response.key_id, {})[response] = None
        self._start()
        return response

    def forget(self, response):
        """Ends what follow has begun."""
        with self._lock:
            self._running.pop(response, None)
            own = self._running_of.get(response.key_id, {})
            own.pop(response, None)
            if not own:
                self._running_of.pop(response.key_id, None)

    def _note_end(self, key_id, answer):
        """Tells the responses that run that a decision has denied their key."""
        if answer["allowed"] or answer["code"] not in _OF_STATE:
            return
        with self._lock:
            ended = list(self._running_of.get(key_id, ()))
        for response in ended:
            response.on_denied()

    def _start(self):
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, daemon=True)
                    with contextlib.suppress(RuntimeError):  # This machine has no thread left. The next report tries again.
                        thread.start()
                        self._thread = thread

    def flush(self):
        """Sends all reports that wait."""
        self._shadow.flush()
        self._reports.flush()

    def close(self):
        """Sends all reports that wait. It also runs when the process ends."""
        self._stopped.set()
        self._call_s = LAST_S
        end = time.monotonic() + self.timeout
        while self._beside.pending and time.monotonic() < end:
            time.sleep(0.01)
        self.flush()

    def stats(self):
        """Returns the number of decisions, of denied and degraded ones, of reports that wait and that were dropped, and whether the Worker is away."""
        sums = collections.Counter(self._reports.stats())
        sums.update(self._shadow.stats())
        return {**self._counts, **sums, "away": self._is_away}

    def _run(self):
        while not self._stopped.wait(REPORT_EVERY_S):
            try:
                self._report_streams()
                self.flush()
            except Exception as error:  # The thread has to go on.
                self.say(f"reports wait: {error!r}")

    def _report_streams(self):
        with self._lock:
            long = list(itertools.takewhile(lambda response: time.monotonic() - response.started >= STREAM_S, self._running))
            for response in long:
                self._running.pop(response, None)
        for response in long:
            response.report(streaming=True)

    async def _decide(self, given, caller):
        answer = await self._decided(given, caller)
        self._note_end(_id_of(given["key"]), answer)
        return self.told(answer)

    def told(self, answer):
        """Counts a decision, tells the team of it, and returns it. A denial that needs no call comes here, too."""
        self._counts["decisions"] += 1
        self._counts["denied"] += not answer["allowed"]
        self._counts["degraded"] += answer["allowed"] and answer["degraded"]
        if self._on_decision:
            try:
                self._on_decision(answer)
            except Exception as error:  # What the team does with a decision never changes it.
                self.say(f"on_decision has failed: {error!r}")
        return answer

    async def _decided(self, given, caller):
        deadline = time.monotonic() + self.timeout
        request = _described(**given)
        if len(request["key"]) > MAX_KEY:
            return _TOO_LONG
        key_id = _id_of(request["key"])
        # Only one request waits for the probe at the end of the pause.
        if self._is_away and self._probing is None and time.monotonic() >= self._probe_at:
            await caller.wait(self._probe(1), deadline - time.monotonic())
        if self._is_away:
            return self._without_worker(key_id, request)
        # A request waits for a slot for half of its time, so that the call has the other half.
        return await caller.in_slot(key_id, deadline - self.timeout / 2, lambda key: self._ask(key_id, key, request, caller, deadline)) or _unavailable()

    async def _ask(self, key_id, key, request, caller, deadline):
        """Asks the Worker. Sends a call that failed once more with the same request_id, so that the request counts once."""
        body = json.dumps({"request_id": str(uuid.uuid4()), **request})
        started = time.monotonic()
        for attempt in (1, 2):
            try:
                answer, text = self._decision(await self._call(caller, body, deadline - time.monotonic(), attempt == 2))
                caller.note(key_id, answer)
                if answer["status"] in (401, 403, 422):
                    key["denied_at"] = time.monotonic()
                # An older answer never brings back a credential that was denied meanwhile.
                if self._known and (not answer["allowed"] or started > key["denied_at"]):
                    self._known.note(key_id, request.get("ip", ""), answer, text)
                return answer
            except NoDecision as error:
                if attempt == 1 and error.again and time.monotonic() < deadline:
                    continue
                self.say(error)
                if error.is_lost:
                    await caller.wait(self._probe(PROBES), deadline - time.monotonic())
                    if self._is_away:
                        return self._without_worker(key_id, request)
                return _unavailable()

    @staticmethod
    async def _call(caller, body, seconds, is_again):
        if seconds <= 0:
            raise NoDecision("the Worker did not respond in time")
        return await caller.call(API + "/verify", body, seconds, is_again)

    @staticmethod
    def _decision(result):
        status, text = result
        if status != 200:
            # A service token that the Worker rejects is an error of this service, never one of the client.
            raise NoDecision(f"the Worker responded with {status}: {text[:500]!r}", again=status >= 500 or status == 429)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        # Only a 200 with `allowed` is a decision.
        if not isinstance(answer, dict) or not isinstance(answer.get("allowed"), bool):
            raise NoDecision("the answer is not a decision", again=True)
        return answer, text

    def _answered(self):
        """Notes that the Worker is there: any answer shows it."""
        self._answers += 1
        self._is_away = False

    def _without_worker(self, key_id, request):
        """Lets a credential pass that was allowed before, or denies the request with the rest of the pause."""
        known = self._known and self._known.find(key_id, request)
        if known:
            return {**_unavailable(), "allowed": True, "status": 200, "code": None, **known, "headers": {}, "problem": None}
        return _unavailable(self._probe_at - time.monotonic())

    def _probe(self, count):
        """Sends probes. If all of them fail, the Worker is away. Calls at the same time share one series of probes."""
        with self._lock:
            done = self._probing
            if done is None:
                done = self._probing = concurrent.futures.Future()
                try:
                    threading.Thread(target=self._send_probes, args=(count, done), daemon=True).start()
                except RuntimeError:  # This machine has no thread left.
                    self._probing = None
                    done.set_result(None)
            return done

    def _send_probes(self, count, done):
        before = self._answers
        for sent in range(count):
            if sent > 0:
                time.sleep(BETWEEN_PROBES_S)
            try:
                self._threads.post("/health", None, PROBE_S, "GET")
            except NoDecision as error:
                # A machine that cannot open a connection knows nothing about the Worker.
                if error.is_local or not _can_open():
                    break
            if self._answers != before:
                break
        else:
            self._probe_at = time.monotonic() + self._pause
            self._is_away = True
        self._probing = None
        done.set_result(None)

    def say(self, message):
        """Writes to the log, at most one line in ten seconds."""
        self._unsaid += 1
        if time.monotonic() < self._quiet_until:
            return
        times = f" ({self._unsaid} failures since the last message)" if self._unsaid > 1 else ""
        self._unsaid, self._quiet_until = 0, time.monotonic() + QUIET_S
        with contextlib.suppress(Exception):  # A logger that fails changes no decision.
            self._log.warning("Developer Overview: %s%s", message, times)

    def safely(self, name, run, *args):
        """Returns what a function of the team returns, or None if it fails."""
        try:
            return run(*args)
        except Exception as error:
            self.say(f"{name} has failed: {error!r}")
            return None


def _ended(deciding):
    """Returns the result of a coroutine that never waits, because all that it calls blocks the thread."""
    try:
        deciding.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a decision has waited in a thread")


class _Response:
    """The response to an admitted request. It is reported once. beside: in shadow mode, the future of the receipt."""

    def __init__(self, verifier, answer, on_denied):
        self._verifier, self._receipt, self.on_denied = verifier, answer["receipt"], on_denied
        self.started, self.status, self.route, self.key_id = time.monotonic(), 500, lambda: None, None
        self.beside = None

    def report(self, streaming=False):
        (receipt, self._receipt), (beside, self.beside) = (self._receipt, None), (self.beside, None)
        response = (self.status, (time.monotonic() - self.started) * 1000, self._verifier.safely("route", self.route), streaming)
        if beside:
            beside.add_done_callback(lambda done: self._verifier.report(done.result(), *response))
        else:
            self._verifier.report(receipt, *response)

    def end(self):
        self._verifier.forget(self)
        self.report()


# Denials that end a connection that is open.
_OF_STATE = ("invalid_key", "revoked_key", "disabled_key", "expired_key", "account_suspended")
# The answer about a request that runs without an identity, because the team said so.
_PASSED = {"allowed": True, "passes": True, "status": 200, "headers": {}, "receipt": None}
# The headers that a page of another origin may read on a denial.
_EXPOSED = "RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"


_AMBIGUOUS = re.compile(r"[#\\;]|//|%(?:2f|5c|3b|25(?:2e|2f|5c|3b))", re.IGNORECASE)
_BROKEN = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)


def _segments_of(path):
    """Returns the segments of a path in lower case, or None for a path that servers read in different ways.

    Such a path has an encoded slash, dots, a second slash, a backslash, a semicolon, a fragment or a control character.
    """
    if not path.startswith("/") or _AMBIGUOUS.search(path) or _BROKEN.search(path):
        return None
    trimmed = path[:-1] if path.endswith("/") else path
    segments = [unquote(part).lower() for part in trimmed.split("/")[1:]]
    if any(segment in (".", "..") or not segment.isprintable() for segment in segments):
        return None
    return segments


def _row_of(row, needs):
    """Returns a row like "GET /orders/:id" in parts. "*" at the end stands for all that follows."""
    method, path = row.split(" ", 1)
    trimmed = path[:-1] if path.endswith("/") else path
    return method.upper(), trimmed.lower().split("/")[1:], needs


def _fits(wanted, parts, method, segments):
    """Returns whether a row fits a request. A row for GET fits HEAD."""
    if wanted not in ("*", method) and not (wanted == "GET" and method == "HEAD"):
        return False
    has_rest = bool(parts) and parts[-1] == "*"
    fixed = parts[:-1] if has_rest else parts
    if len(segments) < len(fixed) or (not has_rest and len(segments) != len(fixed)):
        return False
    return all(segment != "" if part.startswith(":") else part == segment for part, segment in zip(fixed, segments))


class _Middleware:
    waits = True  # Whether a request can wait for a coroutine.

    def __init__(
        self,
        app,
        verifier,
        scope=None,
        cost=None,
        key_headers=KEY_HEADERS,
        client_ip=None,
        scopes=None,
        preflight="deny",
        missing="deny",
        unknown="deny",
        skip=(),
        routes=None,
        cors=None,
        on_denied=None,
        mode="enforce",
        compare=None,
        enforce=None,
    ):
        if mode not in ("enforce", "shadow"):
            raise ValueError('mode must be "enforce" or "shadow"')
        for name, value in (("preflight", preflight), ("missing", missing), ("unknown", unknown)):
            if value not in ("deny", "pass"):
                raise ValueError(f'{name} must be "deny" or "pass"')
        self.app = app
        self.verifier = verifier
        self.needs = {"scope": scope, "scopes": scopes, "cost": cost}
        self.key_headers = [name.lower() for name in key_headers]
        self.client_ip = client_ip
        self.preflight, self.missing, self.unknown, self.skip = preflight == "pass", missing == "pass", unknown == "pass", skip
        self.rows = None if routes is None else [_row_of(row, needs) for row, needs in routes.items()]
        self.origins = cors and cors["origins"]
        self.on_denied = on_denied
        self.is_shadow, self.compare, self.enforce = mode == "shadow", compare, enforce

    async def _decided(self, headers, method, path, ip, raw, verify):
        """Returns the answer about a request, its key, and in shadow mode the future of its receipt. verify: a function that asks."""
        if self.is_shadow:
            return await self._shadowed(headers, method, path, ip, raw, verify)
        request, answer = self._request(headers, method, path, ip, raw)
        return answer or self._outcome(await verify(request), method, path), request["key"] if request else "", None

    async def _shadowed(self, headers, method, path, ip, raw, verify):
        """Lets a request run, unless enforce names its account. A function of the team that fails changes nothing."""
        own = None
        try:
            request, answer = self._request(headers, method, path, ip, raw)
            if answer is None and self.enforce is not None:
                answer = self._outcome(await verify(request), method, path)
        except Exception as error:
            self.verifier.say(f"shadow mode has failed: {error!r}")
            return _PASSED, "", None
        key = request["key"] if request else ""
        if answer and (answer.get("passes") or answer.get("enforced")):
            return answer, key, None
        if self.compare:
            own = self.verifier.safely("compare", self.compare, raw)
            if inspect.isawaitable(own):
                own = await self._awaited(own)
            own = None if own is None else bool(own)
        path = _without_credentials(path, self._values_in(headers))
        sent = request["path"] if request else path
        decide = (lambda: answer) if answer else (lambda: self._outcome(self.verifier.verify(request), method, sent))
        return _PASSED, "", self.verifier.beside(decide, own, key, method, path)

    async def _awaited(self, comparing):
        """Returns the result of a comparison within the time for a decision, or None. A thread cannot wait for a coroutine."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None and not self.waits:
            getattr(comparing, "close", lambda: None)()
            self.verifier.say("compare is a coroutine, which WSGI cannot wait for")
            return None
        try:
            if loop:
                return await asyncio.wait_for(comparing, self.verifier.timeout)
            with sys.modules["trio"].move_on_after(self.verifier.timeout):
                return await comparing
        except Exception as error:
            self.verifier.say(f"compare has failed: {error!r}")
        return None

    def _values_in(self, headers):
        return [value for wanted in self.key_headers for name, value in headers if name == wanted]

    def _request(self, headers, method, path, ip, raw):
        """Returns the call about a request, or its answer. headers: pairs of a name in lower case and a value. raw: the scope or the environ."""
        plain = path.partition("?")[0]
        if self.skip(raw) if callable(self.skip) else plain in self.skip:
            return None, _PASSED
        key = credential_of(self._values_in(headers))
        named = dict(headers)
        if key is None:
            return None, self.verifier.told(_CONFLICT)
        if key == "" and (self.missing or (self.preflight and _is_preflight(method, named))):
            return None, _PASSED
        needs = self._needs_of(method, plain)
        may_be_foreign = self.unknown and key != ""
        if needs is None and not may_be_foreign:
            return None, self.verifier.told(_no_route())
        request = {"key": key, "method": method, "path": path, "ip": ip, **{name: value for name, value in (needs or {}).items() if value}}
        if named.get("user-agent"):
            request["user_agent"] = named["user-agent"]
        if may_be_foreign:
            request["unknown"] = "pass"
        if self.is_shadow:
            request["shadow"] = self.enforce or {}
        return request, None

    def _needs_of(self, method, path):
        """Returns what a request needs, or None if there is a table of routes and no row fits."""
        if self.rows is None:
            return self.needs
        segments = _segments_of(path)
        rows = [] if segments is None else self.rows
        needs = next((needs for wanted, parts, needs in rows if _fits(wanted, parts, method, segments)), None)
        return None if needs is None else {**self.needs, **needs}

    def _outcome(self, answer, method, path):
        """Returns the answer for the client. A credential of somebody else passes if the team said so."""
        if self.unknown and answer.get("foreign"):
            return _PASSED
        if answer["allowed"] and self._needs_of(method, path.partition("?")[0]) is None:
            refused = {**_no_route(), "enforced": answer.get("enforced", True)}
            if self.is_shadow and not refused["enforced"]:
                # The request runs, and its own response is reported.
                return {**refused, "receipt": answer["receipt"]}
            self.verifier.report(answer["receipt"], 404, 0)
            return refused
        return answer

    def _denial_headers(self, answer, headers):
        added = {}
        if self.origins is not None:
            added["Vary"] = "Origin"
            origin = dict(headers).get("origin", "")
            if origin and ("*" in self.origins or origin in self.origins):
                added.update({"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _EXPOSED})
        return {**_headers_of(answer), **added}


def _no_route():
    return _denied(404, "not_found", "Not found", "This API has no such route.")


def _is_preflight(method, named):
    has_body = named.get("transfer-encoding") or named.get("content-length", "0") not in ("", "0")
    return method == "OPTIONS" and bool(named.get("origin")) and bool(named.get("access-control-request-method")) and not has_body


def _headers_of(answer):
    return {**answer["headers"], "Content-Type": "application/problem+json", "Cache-Control": "no-store"}


def _verified(answer):
    return None if answer.get("passes") else {"account": answer["account"], "key": answer["key"], "degraded": answer["degraded"]}


class AsgiMiddleware(_Middleware):
    """Middleware for ASGI. The handler finds the account and the key in scope["state"]["verified"], in FastAPI request.state.verified.

    A WebSocket is verified before it is accepted.
    """

    async def __call__(self, scope, receive, send):
        kind = scope["type"]
        if kind == "lifespan":
            return await self.app(scope, receive, send)
        if kind not in ("http", "websocket"):
            raise RuntimeError(f"AsgiMiddleware cannot verify connections of the type {kind!r}.")
        named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        kept = [pair for pair in scope["headers"] if not _OF_VERIFIED.match(pair[0].decode("latin-1"))]
        scope = dict(scope, headers=kept)
        client = scope.get("client")
        ip = self.verifier.safely("client_ip", self.client_ip, scope) if self.client_ip else (client[0] if client else None)
        raw_path = scope.get("raw_path")
        path = raw_path.decode("latin-1") if isinstance(raw_path, bytes) else quote(scope.get("path", ""))
        answer, key, beside = await self._decided(named, scope.get("method", "GET"), path, ip, scope, self.verifier.verify_async)
        if not answer["allowed"]:
            if self.on_denied and kind == "http":
                return await self.on_denied(scope, receive, send, answer)
            return await self._deny(scope, receive, send, answer, self._denial_headers(answer, named))
        scope["state"] = {**scope.get("state", {}), "verified": _verified(answer)}
        added = [(name.encode(), value.encode()) for name, value in answer["headers"].items()]
        ending = _Ending(kind, receive)
        response = self.verifier.follow(answer, key, ending.end)
        response.beside = beside
        response.route = lambda: getattr(scope.get("route"), "path", None)

        async def send_with_headers(message):
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                response.status = message["status"]
            elif message["type"] == "websocket.accept":
                response.status = 101
            elif message["type"] == "websocket.close" and response.status == 500:
                # A WebSocket that is closed before it was accepted.
                response.status = 403
            if message["type"] in ("http.response.start", "websocket.accept"):
                message = dict(message, headers=[*message.get("headers", []), *added])
            await send(message)

        try:
            await self.app(scope, ending.receive, send_with_headers)
            if kind == "websocket" and ending.is_denied:
                # The handler has ended, but the server keeps the connection.
                await send({"type": "websocket.close", "code": 1008})
        finally:
            ending.close()
            response.end()

    @staticmethod
    async def _deny(scope, receive, send, answer, given):
        headers = [(name.encode(), value.encode()) for name, value in given.items()]
        prefix = ""
        if scope["type"] == "websocket":
            await receive()
            if "websocket.http.response" not in (scope.get("extensions") or {}):
                # The server responds with 403.
                return await send({"type": "websocket.close", "code": 1008})
            prefix = "websocket."
        await send({"type": f"{prefix}http.response.start", "status": answer["status"], "headers": headers})
        await send({"type": f"{prefix}http.response.body", "body": json.dumps(answer["problem"]).encode()})


class _Ending:
    """What a handler receives. When its key is denied, that is the end of the connection, in the event loop of asyncio."""

    def __init__(self, kind, receive):
        self._kind, self._receive, self._next, self.is_denied = kind, receive, None, False
        try:
            self._loop = asyncio.get_running_loop()
            self._denied = self._loop.create_future()
        except RuntimeError:
            self._loop = self._denied = None

    def end(self):
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            self._loop and self._loop.call_soon_threadsafe(lambda: self._denied.done() or self._denied.set_result(None))

    async def receive(self):
        if self._loop is None:
            return await self._receive()
        self._next = self._next or asyncio.ensure_future(self._receive())
        await asyncio.wait({self._next, self._denied}, return_when=asyncio.FIRST_COMPLETED)
        if self._next.done():
            made, self._next = self._next, None
            return made.result()
        self.is_denied = True
        return {"type": "http.disconnect"} if self._kind == "http" else {"type": "websocket.disconnect", "code": 1008, "reason": "the key is denied"}

    def close(self):
        if self._next:
            self._next.cancel()


def _sent_path(environ):
    """Returns the path as the client sent it. Servers that do not keep it have decoded it, and then its usual form is returned."""
    sent = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    if sent.startswith("/"):
        return sent.split("?")[0]
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return quote(path.encode("latin-1", "replace"), safe="/!$&'()*+,;=:@~")


class WsgiMiddleware(_Middleware):
    """Middleware for WSGI. The handler finds the account and the key in environ["developer_overview.verified"]. route: a function of environ."""

    waits = False

    def __init__(self, app, verifier, route=None, **options):
        super().__init__(app, verifier, **options)
        self.route = route or (lambda environ: environ.get("developer_overview.route"))

    def __call__(self, environ, start_response):
        headers = [(name[5:].replace("_", "-").lower(), value) for name, value in environ.items() if name.startswith("HTTP_")]
        headers.append(("content-length", environ.get("CONTENT_LENGTH") or "0"))
        environ = {name: value for name, value in environ.items() if not _OF_VERIFIED.match(name.replace("HTTP_", "", 1))}
        ip = self.verifier.safely("client_ip", self.client_ip, environ) if self.client_ip else environ.get("REMOTE_ADDR")
        path = _sent_path(environ)

        async def verify(request):
            return self.verifier.verify(request)

        answer, key, beside = _ended(self._decided(headers, environ["REQUEST_METHOD"], path, ip, environ, verify))
        if not answer["allowed"]:
            if self.on_denied:
                return self.on_denied(environ, start_response, answer)
            phrase = http.client.responses.get(answer["status"], "")
            start_response(f"{answer['status']} {phrase}", list(self._denial_headers(answer, headers).items()))
            return [json.dumps(answer["problem"]).encode()]
        environ["developer_overview.verified"] = _verified(answer)
        response = self.verifier.follow(answer, key)
        response.beside = beside
        response.route = lambda: self.route(environ)

        def start(status, response_headers, exc_info=None):
            response.status = int(status.split(" ", 1)[0])
            return start_response(status, [*response_headers, *answer["headers"].items()], exc_info)

        try:
            body = self.app(environ, start)
        except Exception:
            response.end()
            raise
        return _Reported(body, response.end)


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
