"""Tests of debrief.py against a fake API, and against a real server if DEBRIEF_TEST_URL names one. Standard library only."""

import asyncio
import http.server
import json
import os
import socket
import sys
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import debrief  # noqa: E402


DEFAULT = debrief.ADVICE_TIMEOUT


class Fake(http.server.ThreadingHTTPServer):
    """A fake API. It answers with the replies in turn, and the last one from then on. A reply is a status, a body and headers."""

    daemon_threads = True

    def __init__(self, *replies):
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies, self.requests, self.released = list(replies), [], threading.Event()
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        replies = self.server.replies
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if reply == "hang":
            self.server.released.wait(10)
            return
        if reply == "drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not self.server.released.wait(0.05):
                self.wfile.write(b"x")
            return
        if reply == "close":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, value, *rest = reply
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) + (10 if "cut" in rest else 0)))
        for name, text in (rest[0].items() if rest and isinstance(rest[0], dict) else ()):
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


CONTEXT = (200, {"context_id": "c-1", "messages": [{"role": "system", "content": "Weigh it."}], "playbook_version": 3})
STORED = (201, {"handle": "17-ab12cd34"})
BUSY = (503, {"title": "Service Unavailable", "detail": "no service answers: start a generator", "code": "unavailable"})


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    async def test_run(self):
        fake = Fake(CONTEXT, STORED)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        async with debrief.Client(fake.url, token="secret", advice_timeout=5).run("q", session="s") as run:
            self.assertEqual(run.messages[0]["content"], "Weigh it.")
            run.answer = "a"
        ticking.cancel()
        self.assertEqual((run.handle, run.degraded), ("17-ab12cd34", ""))
        self.assertEqual([(path, body.get("answer")) for path, _, body in fake.requests], [("/api/v1/contexts", None), ("/api/v1/executions", "a")])
        self.assertGreater(ticks, 1)  # the event loop goes on
        stop(fake)

    async def test_limit_with_many_runs(self):
        """50 runs at a server that hangs begin in time: they wait at once, not one after the other."""
        fake = Fake("hang")
        client = debrief.Client(fake.url)

        async def begin():
            started = time.monotonic()
            run = client.run("q")
            await run.__aenter__()
            return time.monotonic() - started, run.degraded

        for waited, degraded in await asyncio.gather(*(begin() for _ in range(50))):
            self.assertIn("no advice within 150 ms", degraded)
            self.assertLess(waited, 3)
        stop(fake)

    async def test_exception_is_a_failure(self):
        fake = Fake(CONTEXT, STORED)
        with self.assertRaises(KeyError):
            async with debrief.Client(fake.url, advice_timeout=5).run("q"):
                raise KeyError("x")
        self.assertEqual(fake.requests[1][2]["outcome"]["label"], "failure")
        stop(fake)

    async def test_cancelled_run_is_not_reported(self):
        fake = Fake(CONTEXT, STORED)
        started = asyncio.Event()

        async def work():
            async with debrief.Client(fake.url, advice_timeout=5).run("q"):
                started.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await started.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(len(fake.requests), 1)
        stop(fake)

    async def test_requests(self):
        fake = Fake(CONTEXT, STORED, STORED)
        client = debrief.AsyncClient(fake.url)
        self.assertEqual((await client.context("q"))["context_id"], "c-1")
        self.assertEqual((await client.report(question="q", answer="a", outcome=True))["handle"], "17-ab12cd34")
        self.assertEqual((await client.feedback("17-ab12cd34", False))["handle"], "17-ab12cd34")
        self.assertEqual([path for path, _, _ in fake.requests], ["/api/v1/contexts", "/api/v1/executions", "/api/v1/feedback"])
        stop(fake)


def stop(fake):
    fake.released.set()
    fake.shutdown()
    fake.server_close()


class Test(unittest.TestCase):
    def setUp(self):
        self.delays = []
        patch = mock.patch.object(debrief.time, "sleep", self.delays.append)
        patch.start()
        self.addCleanup(patch.stop)
        patience = mock.patch.object(debrief, "ADVICE_TIMEOUT", 10)  # the machine may be busy
        patience.start()
        self.addCleanup(patience.stop)
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        for name in ("DEBRIEF_URL", "DEBRIEF_API_TOKEN", "DEBRIEF_BOOK"):
            os.environ.pop(name, None)

    def fake(self, *replies):
        fake = Fake(*replies)

        def close():
            fake.released.set()
            fake.shutdown()
            fake.server_close()

        self.addCleanup(close)
        return fake

    def failure(self, fake, **options):
        with self.assertRaises(debrief.DebriefError) as caught:
            debrief.Client(fake if isinstance(fake, str) else fake.url, **options).context("q")
        return caught.exception


class TestRequests(Test):
    def test_context(self):
        fake = self.fake(CONTEXT)
        reply = debrief.Client(fake.url + "/", token="secret", book="b").context("Where?", session="s-1", limit=5)
        self.assertEqual(reply["context_id"], "c-1")
        path, headers, body = fake.requests[0]
        self.assertEqual((path, body), ("/api/v1/contexts", {"book": "b", "query": "Where?", "session": "s-1", "limit": 5}))
        self.assertEqual((headers["Authorization"], headers["Content-Type"]), ("Bearer secret", "application/json"))

    def test_report(self):
        fake = self.fake(STORED)
        for outcome in (True, 0.7, "success", {"label": "failure", "feedback": "late"}):
            self.assertEqual(debrief.Client(fake.url).report(outcome=outcome, question="q", answer="a")["handle"], "17-ab12cd34")
            path, headers, body = fake.requests[-1]
            self.assertEqual((path, body["outcome"], body["book"]), ("/api/v1/executions", outcome, "default"))
            self.assertTrue(body["run_id"])
            self.assertNotIn("Authorization", headers)
        debrief.Client(fake.url).report(context_id="c-1", answer="a")
        self.assertEqual(fake.requests[-1][2], {"context_id": "c-1", "answer": "a"})

    def test_feedback(self):
        fake = self.fake(STORED)
        debrief.Client(fake.url).feedback("17-ab12cd34", False, target="Shelf 9")
        path, _, body = fake.requests[0]
        self.assertEqual((path, body["execution"], body["outcome"], body["target"], len(body["id"])), ("/api/v1/feedback", "17-ab12cd34", False, "Shelf 9", 22))

    def test_environment(self):
        fake = self.fake(CONTEXT, STORED, STORED)
        os.environ.update(DEBRIEF_URL=fake.url, DEBRIEF_API_TOKEN="t", DEBRIEF_BOOK="b")
        debrief.context("q")
        debrief.report(answer="a")
        debrief.feedback("1-00000000", 0.5)
        self.assertEqual([(path, body["book"], headers["Authorization"]) for path, headers, body in fake.requests],
                         [("/api/v1/" + name, "b", "Bearer t") for name in ("contexts", "executions", "feedback")])


class TestRun(Test):
    def test_success(self):
        fake = self.fake(CONTEXT, STORED)
        with debrief.Client(fake.url).run("Where?", session="s-1") as run:
            self.assertEqual(run.messages, CONTEXT[1]["messages"])
            run.tool("lookup", {"id": 7}, "found")
            run.tool("lookup", "x", {"error": "none"}, failed=True)
            run.answer, run.outcome = "Here.", True
        body = fake.requests[1][2]
        calls = [step["tool_calls"][0] for step in body["steps"]]
        self.assertEqual(calls, [{"tool": "lookup", "arguments": '{"id": 7}', "output": "found", "outcome": "success"},
                                 {"tool": "lookup", "arguments": "x", "output": '{"error": "none"}', "outcome": "failure"}])
        self.assertEqual((body["context_id"], body["question"], body["answer"], body["outcome"], body["session"]), ("c-1", "Where?", "Here.", True, "s-1"))
        self.assertEqual((run.handle, run.degraded), ("17-ab12cd34", ""))
        self.assertGreaterEqual(body["duration_ns"], 0)

    def test_sub_agents_have_the_id_of_their_run(self):
        for fields in ({}, {"session": "s-1"}, {"run_id": "r-1"}):
            fake = self.fake(*[CONTEXT, CONTEXT, CONTEXT, STORED, STORED, STORED])
            with debrief.Client(fake.url).run("q", **fields) as run, run.sub_agent("p") as sub, sub.sub_agent("o", limit=9):
                pass
            bodies = [body for _, _, body in fake.requests]
            ids = {body["run_id"] for body in bodies[:3]}
            self.assertEqual(len(ids), 1, ids)
            if fields:
                self.assertEqual(ids, set(fields.values()))
            self.assertEqual([body.get("session") for body in bodies[:3]], [fields.get("session"), None, None])
            self.assertEqual((bodies[2]["query"], bodies[2]["limit"]), ("o", 9))
            self.assertNotIn("run_id", bodies[3])  # otherwise the reports were copies of one run

    def test_run_begins_in_time(self):
        """A server that hangs, and one that sends a byte now and then, do not keep an agent waiting."""
        for reply in ("hang", "drip"):
            fake = self.fake(reply, STORED)
            started = time.monotonic()
            with debrief.Client(fake.url, advice_timeout=DEFAULT).run("q") as run:
                waited = time.monotonic() - started
                fake.released.set()
            self.assertTrue(0.14 < waited < 1, waited)
            self.assertIn("no advice within 150 ms", run.degraded)
            self.assertEqual((run.messages, run.handle), ([{"role": "user", "content": "q"}], "17-ab12cd34"))

    def test_advice_is_requested_once(self):
        fake = self.fake(BUSY, STORED)
        with debrief.Client(fake.url).run("q") as run:
            self.assertIn("start a generator", run.degraded)
            run._fields["advice"] = True
            self.assertEqual(run.messages, [])
        self.assertEqual([path for path, _, _ in fake.requests], ["/api/v1/contexts", "/api/v1/executions"])

    def test_exception_is_a_failure(self):
        fake = self.fake(CONTEXT, STORED)
        with self.assertRaises(KeyError), debrief.Client(fake.url).run("q"):
            raise KeyError("x")
        self.assertEqual(fake.requests[1][2]["outcome"], {"label": "failure", "feedback": "KeyError: 'x'"})

    def test_exception_of_the_agent_comes_first(self):
        fake = self.fake(CONTEXT, (400, {"detail": "answer: required"}))
        with self.assertRaises(KeyError), debrief.Client(fake.url).run("q") as run:
            raise KeyError("x")
        self.assertIn("answer: required", run.degraded)

    def test_interrupt_reports_nothing(self):
        fake = self.fake(CONTEXT, STORED)
        with self.assertRaises(KeyboardInterrupt), debrief.Client(fake.url).run("q"):
            raise KeyboardInterrupt
        self.assertEqual(len(fake.requests), 1)

    def test_without_a_server(self):
        with debrief.Client(unused()).run("Where?") as run:
            self.assertEqual(run.messages, [{"role": "user", "content": "Where?"}])
        self.assertIn("DEBRIEF_URL", run.degraded)
        self.assertEqual(run.handle, "")

    def test_invalid_request_is_not_hidden(self):
        for replies in ([(400, {"detail": "query: required"})], [CONTEXT, (400, {"detail": "query: required"})]):
            fake = self.fake(*replies)
            with self.assertRaisesRegex(debrief.DebriefError, "query: required"):
                with debrief.Client(fake.url).run(""):
                    pass


class TestErrors(Test):
    def test_problem(self):
        err = self.failure(self.fake((400, {"detail": "limit: must be at least 1", "code": "invalid", "field": "limit"})))
        self.assertEqual((str(err), err.status, err.code, err.field, err.temporary), ("limit: must be at least 1 (status 400)", 400, "invalid", "limit", False))
        self.assertEqual(self.delays, [])

    def test_unauthorized_names_the_setting(self):
        self.assertRegex(str(self.failure(self.fake((401, {"detail": "missing token"})))), "missing token: set DEBRIEF_API_TOKEN .*status 401")

    def test_error_without_problem(self):
        for body in (b"<html>", b"[1]", b"", b'"x"'):
            self.assertEqual(str(self.failure(self.fake((404, body)))), "Not Found (status 404)")

    def test_not_debrief(self):
        for body in (b"<html>", b"[1]", b"null", b"\xff"):
            err = self.failure(self.fake((200, body)))
            self.assertRegex(str(err), "is this the address of Debrief")
            self.assertEqual((err.status, err.temporary), (200, False))

    def test_redirect_is_refused(self):
        elsewhere = Fake(CONTEXT)
        for status in (301, 302, 303, 307, 308):
            fake = Fake((status, b"", {"Location": elsewhere.url + "/api/v1/contexts"}))
            with self.assertRaises(debrief.DebriefError) as caught:
                debrief.Client(fake.url, token="secret").context("q")
            self.assertEqual(caught.exception.status, status)
            self.assertIn("DEBRIEF_URL", str(caught.exception))
            fake.shutdown()
            fake.server_close()
        self.assertEqual(elsewhere.requests, [])
        elsewhere.shutdown()
        elsewhere.server_close()

    def test_unreachable_names_the_setting(self):
        err = self.failure(unused())
        self.assertRegex(str(err), "is 'debrief up' or the gateway running.*DEBRIEF_URL")
        self.assertTrue(err.temporary)

    def test_invalid_address(self):
        with self.assertRaisesRegex(ValueError, "want an address such as http.*DEBRIEF_URL"):
            debrief.Client("localhost:4280")

    def test_temporary_errors_are_retried(self):
        for reply in (BUSY, (429, {}), (502, b"bad gateway"), "close", (200, b'{"context_id"', "cut")):
            self.delays.clear()
            fake = self.fake(reply, reply, CONTEXT)
            self.assertEqual(debrief.Client(fake.url).context("q")["context_id"], "c-1")
            self.assertEqual((len(fake.requests), len(self.delays)), (3, 2))
            self.assertTrue(0.2 <= self.delays[0] <= 0.25 and 0.4 <= self.delays[1] <= 0.5, self.delays)

    def test_retries_end(self):
        fake = self.fake(BUSY)
        err = self.failure(fake)
        self.assertEqual((len(fake.requests), err.status, err.code, err.temporary), (debrief.ATTEMPTS, 503, "unavailable", True))
        self.assertIn("start a generator", str(err))

    def test_repeated_report_has_the_same_id(self):
        fake = self.fake(BUSY, "close", STORED)
        debrief.Client(fake.url).report(answer="a")
        self.assertEqual(len({body["run_id"] for _, _, body in fake.requests}), 1)

    def test_timeout(self):
        fake = self.fake("hang")
        err = self.failure(fake, timeout=1.0)  # for all attempts: an agent waits for them
        self.assertEqual((len(fake.requests), err.status, err.temporary), (1, 0, True))
        self.assertIn("timed out", str(err))


@unittest.skipUnless(os.environ.get("DEBRIEF_TEST_URL"), "DEBRIEF_TEST_URL names no server")
class TestServer(unittest.TestCase):
    def test_run_and_feedback(self):
        client = debrief.Client(os.environ["DEBRIEF_TEST_URL"], book="python", advice_timeout=10)
        with client.run("Which shelf is highest?", session="py-1") as run:
            run.tool("lookup", {"shelf": 7}, "high")
            run.answer, run.outcome = "Shelf 7.", 0.5
        self.assertEqual(run.degraded, "")
        self.assertEqual(run.messages[-1]["role"], "user")
        self.assertTrue(client.feedback(run.handle, {"label": "success", "feedback": "right"})["handle"])
        self.assertTrue(client.report(question="q", answer="a", outcome="failure")["handle"])
        with self.assertRaises(debrief.DebriefError) as caught:
            client.context("")
        self.assertEqual((caught.exception.status, caught.exception.code), (400, "invalid"))
        with self.assertRaises(debrief.DebriefError) as caught:
            client.feedback("999-00000000", True)
        self.assertEqual(caught.exception.status, 404)


def unused():
    """Returns the URL of a port without a server."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "http://127.0.0.1:%d" % s.getsockname()[1]


if __name__ == "__main__":
    unittest.main()
