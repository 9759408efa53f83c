"""Tests of debrief.py against a fake API, and against a real server if DEBRIEF_TEST_URL names one. Standard library only."""

import http.server
import json
import os
import socket
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import debrief  # noqa: E402


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


class Test(unittest.TestCase):
    def setUp(self):
        self.delays = []
        patch = mock.patch.object(debrief.time, "sleep", self.delays.append)
        patch.start()
        self.addCleanup(patch.stop)
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
        err = self.failure(fake, timeout=1.0)  # enough for each attempt to reach a busy server
        self.assertEqual((len(fake.requests), err.status, err.temporary), (debrief.ATTEMPTS, 0, True))
        self.assertIn("timed out", str(err))


@unittest.skipUnless(os.environ.get("DEBRIEF_TEST_URL"), "DEBRIEF_TEST_URL names no server")
class TestServer(unittest.TestCase):
    def test_run_and_feedback(self):
        client = debrief.Client(os.environ["DEBRIEF_TEST_URL"], book="python")
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
