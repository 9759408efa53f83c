"""Let an agent learn from its runs with Debrief.

One file, standard library only, Python 3.9 and later. Download it from a gateway or from 'debrief up':

    curl -O http://127.0.0.1:4280/clients/debrief.py

Use it in an agent:

    import debrief

    with debrief.run("Where is the globe?") as run:
        run.answer = your_model(run.messages)
    print(run.handle or run.degraded)

The run is reported at the end of the block; an exception makes it a failure. The block begins within 150 ms. If Debrief is down or
slower, the messages contain only the query, and run.degraded is the reason. In a coroutine, use 'async with debrief.run(…)', and
AsyncClient for the other requests.

The settings are environment variables: DEBRIEF_URL (http://127.0.0.1:4280), DEBRIEF_API_TOKEN, DEBRIEF_BOOK (default).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import queue
import random
import threading
import time
import urllib.error
import urllib.request
import uuid
from typing import Any, Callable, Mapping, Optional, Union

__all__ = ["AsyncClient", "Client", "Run", "DebriefError", "run", "context", "report", "feedback"]

Outcome = Union[bool, float, str, Mapping[str, Any]]

ATTEMPTS = 3
ADVICE_TIMEOUT = 0.15
TEMPORARY = (408, 429, 502, 503, 504)


class DebriefError(Exception):
    """An error reply of the API, or a failure to reach it.

    status is the HTTP status, or 0 without a reply. code and field come from the problem details (RFC 9457), or are empty.
    """

    def __init__(self, text: str, status: int = 0, code: str = "", field: str = "") -> None:
        super().__init__(text)
        self.status, self.code, self.field = status, code, field

    @property
    def temporary(self) -> bool:
        """Reports whether the same request can succeed later."""
        return self.status == 0 or self.status in TEMPORARY


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: another server would get the token, and a POST would become a GET."""

    def redirect_request(self, *args: Any) -> None:
        return None


class Client:
    """A client of the API. It keeps no connection and is safe to use from several threads."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, book: Optional[str] = None, timeout: float = 12.0, advice_timeout: Optional[float] = None) -> None:
        self.url = (url or os.environ.get("DEBRIEF_URL") or "http://127.0.0.1:4280").rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url}: want an address such as http://127.0.0.1:4280: set DEBRIEF_URL")
        self.token = token if token is not None else os.environ.get("DEBRIEF_API_TOKEN", "")
        self.book = book or os.environ.get("DEBRIEF_BOOK") or "default"
        self.timeout = timeout  # seconds, for a request with its repetitions
        self.advice_timeout = ADVICE_TIMEOUT if advice_timeout is None else advice_timeout  # seconds that a run waits for its context, in all

    def context(self, query: str, **fields: Any) -> dict[str, Any]:
        """Returns a context: messages for the model, and context_id for the report. Fields: session, system, steps, limit, advice, …"""
        return self._post("contexts", {"book": self.book, "query": query, **fields})

    def report(self, *, outcome: Optional[Outcome] = None, **fields: Any) -> dict[str, Any]:
        """Stores an execution and returns its handle. Fields: context_id, question, answer, steps or messages, session, …

        outcome is True, False, a score from 0 to 1, a label such as "success", or a mapping with label, score and feedback.
        """
        if not fields.get("context_id"):
            fields.setdefault("book", self.book)
            fields.setdefault("run_id", uuid.uuid4().hex)  # a repeated request counts once
        if outcome is not None:
            fields["outcome"] = outcome
        return self._post("executions", fields)

    def feedback(self, execution: str, outcome: Outcome, **fields: Any) -> dict[str, Any]:
        """Records the outcome of an execution, also days later. execution is its handle, or the response id of a model call."""
        fields.setdefault("id", uuid.uuid4().hex[:22])
        return self._post("feedback", {"book": self.book, "execution": execution, "outcome": outcome, **fields})

    def run(self, query: str, **fields: Any) -> "Run":
        """Returns a run for a with block. Fields are those of context."""
        return Run(self, query, fields)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()
        end = time.monotonic() + self.timeout
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._send(path, data, max(end - time.monotonic(), 0.001))
            except DebriefError as err:
                pause = 0.2 * 2 ** (attempt - 1) * (1 + random.random() / 4)
                if attempt == ATTEMPTS or not err.temporary or time.monotonic() + pause >= end:
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _advice(self, query: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a context, or raises a temporary error after the time for advice. A timeout of a socket limits each of its reads only."""
        data = json.dumps({"book": self.book, "query": query, **fields}).encode()
        results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        _start(lambda: self._send("contexts", data, self.advice_timeout + 1), results.put)
        try:
            value, error = results.get(timeout=self.advice_timeout)
        except queue.Empty:
            raise DebriefError(f"{self.url}: no advice within {self.advice_timeout * 1000:.0f} ms") from None
        if error is not None:
            raise error
        return value

    def _send(self, path: str, data: bytes, timeout: float) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, {"Content-Type": "application/json"})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as err:
            raise _problem(err) from None
        except (OSError, http.client.HTTPException) as err:
            raise DebriefError(f"{self.url}: {err}: is 'debrief up' or the gateway running? Set DEBRIEF_URL to its address") from None
        try:
            reply = json.loads(text)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise DebriefError(f"{self.url}: the reply is not an object in JSON: is this the address of Debrief? Set DEBRIEF_URL to its address", status)
        return reply


def _start(work: Callable[[], Any], done: Callable[[tuple[Any, Optional[BaseException]]], None]) -> None:
    """Calls work in a thread that does not keep the program alive, and done with its result or its exception."""

    def target() -> None:
        try:
            done((work(), None))
        except BaseException as error:
            done((None, error))

    threading.Thread(target=target, daemon=True).start()


async def _awaited(work: Callable[[], Any]) -> Any:
    """Calls work in a thread of its own: those of the event loop's pool may all be busy."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def finish(result: tuple[Any, Optional[BaseException]]) -> None:
        if future.done():
            return  # cancelled
        if result[1] is not None:
            future.set_exception(result[1])
        else:
            future.set_result(result[0])

    def done(result: tuple[Any, Optional[BaseException]]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result)

    _start(work, done)
    return await future


class AsyncClient(Client):
    """A client for coroutines: await its requests, and use its runs with 'async with'."""

    async def context(self, query: str, **fields: Any) -> dict[str, Any]:  # type: ignore[override]
        """Returns a context; see Client.context."""
        return await _awaited(lambda: Client.context(self, query, **fields))

    async def report(self, **fields: Any) -> dict[str, Any]:  # type: ignore[override]
        """Stores an execution; see Client.report."""
        return await _awaited(lambda: Client.report(self, **fields))

    async def feedback(self, execution: str, outcome: Outcome, **fields: Any) -> dict[str, Any]:  # type: ignore[override]
        """Records the outcome of an execution; see Client.feedback."""
        return await _awaited(lambda: Client.feedback(self, execution, outcome, **fields))


def _problem(err: urllib.error.HTTPError) -> DebriefError:
    try:
        problem = json.load(err)
    except (OSError, ValueError, http.client.HTTPException):
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    text = problem.get("detail") or problem.get("title") or err.reason
    if 300 <= err.code < 400:
        text = f"the server redirects to {err.headers.get('Location')}: set DEBRIEF_URL to the address of Debrief"
    if err.code == 401:
        text += ": set DEBRIEF_API_TOKEN to a token of the tokens file"
    return DebriefError(f"{text} (status {err.code})", err.code, problem.get("code", ""), problem.get("field", ""))


class Run:
    """One run of an agent. Use it in a with block, or in a coroutine in an async with block.

    messages are those for the model. Set answer, and optionally outcome, before the end of the block. handle is set after it.
    degraded is the reason if Debrief could not be reached, else empty.
    """

    def __init__(self, client: Client, query: str, fields: Mapping[str, Any]) -> None:
        self.query, self.answer, self.handle, self.degraded = query, "", "", ""
        self.outcome: Optional[Outcome] = None
        self.steps: list[dict[str, Any]] = []
        self.context: dict[str, Any] = {}
        self._client, self._fields, self._started = client, dict(fields), 0.0
        self._fields.setdefault("run_id", self._fields.get("session") or uuid.uuid4().hex)  # names the run for its sub-agents

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Messages for the model: the context, or only the query if Debrief could not be reached. With the field advice, only the advice, if any."""
        return self.context.get("messages") or ([] if self._fields.get("advice") else [{"role": "user", "content": self.query}])

    def tool(self, name: str, arguments: Any, output: Any, failed: bool = False) -> None:
        """Adds a call of a tool. Arguments and output that are not text are stored as JSON."""
        call = {"tool": name, "arguments": _text(arguments), "output": _text(output), "outcome": "failure" if failed else "success"}
        self.steps.append({"speaker": "assistant", "tool_calls": [call]})

    def sub_agent(self, query: str, **fields: Any) -> "Run":
        """Returns a run of a sub-agent. It is in the same group of the control share, unless it has a session of its own."""
        return self._client.run(query, run_id=self._fields["run_id"], **fields)

    def __enter__(self) -> "Run":
        self._started = time.time()
        try:
            self.context = self._client._advice(self.query, self._fields)
        except DebriefError as err:
            if not err.temporary:
                raise
            self.degraded = str(err)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None and not isinstance(error, Exception):
            return  # KeyboardInterrupt and SystemExit say nothing about the run
        if error is not None and self.outcome is None:
            self.outcome = {"label": "failure", "feedback": f"{kind.__name__}: {error}"}
        try:
            stored = Client.report(
                self._client, context_id=self.context.get("context_id", ""), question=self.query, answer=str(self.answer), steps=self.steps, outcome=self.outcome,
                session=self._fields.get("session", ""), duration_ns=int((time.time() - self._started) * 1e9),
            )
            self.handle = stored["handle"]
        except DebriefError as err:
            if not err.temporary and error is None:
                raise
            self.degraded = self.degraded or str(err)

    async def __aenter__(self) -> "Run":
        return await _awaited(self.__enter__)

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not asyncio.CancelledError:  # the caller waits for nothing any more
            await _awaited(lambda: self.__exit__(kind, error, trace))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def run(query: str, **fields: Any) -> Run:
    """Returns a run of a client with the settings of the environment."""
    return Client().run(query, **fields)


def context(query: str, **fields: Any) -> dict[str, Any]:
    """Returns a context; see Client.context."""
    return Client().context(query, **fields)


def report(**fields: Any) -> dict[str, Any]:
    """Stores an execution; see Client.report."""
    return Client().report(**fields)


def feedback(execution: str, outcome: Outcome, **fields: Any) -> dict[str, Any]:
    """Records the outcome of an execution; see Client.feedback."""
    return Client().feedback(execution, outcome, **fields)
