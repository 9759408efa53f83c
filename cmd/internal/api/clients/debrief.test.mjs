// Tests of debrief.mjs against a fake API, and against a real server if DEBRIEF_TEST_URL names one. No dependencies.

import assert from "node:assert/strict";
import http from "node:http";
import net from "node:net";
import { after, describe, test } from "node:test";

import { Client, DebriefError } from "./debrief.mjs";

for (const name of ["DEBRIEF_URL", "DEBRIEF_API_TOKEN", "DEBRIEF_BOOK"]) delete process.env[name];

const CONTEXT = [200, { context_id: "c-1", messages: [{ role: "system", content: "Weigh it." }], playbook_version: 3 }];
const STORED = [201, { handle: "17-ab12cd34" }];
const BUSY = [503, { title: "Service Unavailable", detail: "no service answers: start a generator", code: "unavailable" }];
const ATTEMPTS = 3;

const servers = [];
after(() => {
  for (const s of servers) {
    s.closeAllConnections();
    s.close();
  }
});

/** Starts a fake API. It answers with the replies in turn, and the last one from then on. A reply is a status and a body. */
async function fake(...replies) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    requests.push({ path: request.url, headers: request.headers, body: JSON.parse(body) });
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    if (reply === "hang") return;
    if (reply === "close") return void request.socket.destroy();
    const [status, value, cut, header] = reply;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    response.writeHead(status, cut ? { "Content-Length": Buffer.byteLength(text) + 10 } : header || {});
    if (!cut) return void response.end(text);
    response.write(text, () => request.socket.destroy());
  });
  servers.push(server);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

/** Returns the URL of a port without a server. */
async function unused() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  await new Promise((resolve) => server.close(resolve));
  return url;
}

/** Returns the error of a context. */
async function failure(url, options = {}) {
  try {
    await new Client({ url, ...options }).context("q");
  } catch (error) {
    assert.ok(error instanceof DebriefError, String(error));
    return error;
  }
  assert.fail("no error");
}

test("context", async () => {
  const api = await fake(CONTEXT);
  const reply = await new Client({ url: api.url + "/", token: "secret", book: "b" }).context("Where?", { session: "s-1", limit: 5 });
  assert.equal(reply.context_id, "c-1");
  const [{ path, headers, body }] = api.requests;
  assert.deepEqual([path, body], ["/api/v1/contexts", { book: "b", query: "Where?", session: "s-1", limit: 5 }]);
  assert.deepEqual([headers.authorization, headers["content-type"]], ["Bearer secret", "application/json"]);
});

test("a redirect is refused", async () => {
  const elsewhere = await fake(CONTEXT);
  for (const status of [301, 302, 303, 307, 308]) {
    const api = await fake([status, "", false, { Location: elsewhere.url + "/api/v1/contexts" }]);
    const error = await failure(api.url, { token: "secret" });
    assert.equal(error.status, status);
    assert.match(error.message, /DEBRIEF_URL/);
  }
  assert.deepEqual(elsewhere.requests, []);
});

test("report", async () => {
  const api = await fake(STORED);
  const client = new Client({ url: api.url });
  for (const outcome of [true, 0.7, "success", { label: "failure", feedback: "late" }]) {
    assert.equal((await client.report({ outcome, question: "q", answer: "a" })).handle, "17-ab12cd34");
    const { path, headers, body } = api.requests.at(-1);
    assert.deepEqual([path, body.outcome, body.book, body.run_id.length, headers.authorization], ["/api/v1/executions", outcome, "default", 22, undefined]);
  }
  await client.report({ context_id: "c-1", answer: "a" });
  assert.deepEqual(api.requests.at(-1).body, { context_id: "c-1", answer: "a" });
});

test("feedback", async () => {
  const api = await fake(STORED);
  await new Client({ url: api.url }).feedback("17-ab12cd34", false, { target: "Shelf 9" });
  const [{ path, body }] = api.requests;
  assert.deepEqual([path, body.execution, body.outcome, body.target, body.id.length], ["/api/v1/feedback", "17-ab12cd34", false, "Shelf 9", 22]);
});

test("settings of the environment", async () => {
  const api = await fake(CONTEXT);
  Object.assign(process.env, { DEBRIEF_URL: api.url, DEBRIEF_API_TOKEN: "t", DEBRIEF_BOOK: "b" });
  try {
    await new Client().context("q");
  } finally {
    for (const name of ["DEBRIEF_URL", "DEBRIEF_API_TOKEN", "DEBRIEF_BOOK"]) delete process.env[name];
  }
  assert.deepEqual([api.requests[0].body.book, api.requests[0].headers.authorization], ["b", "Bearer t"]);
});

test("a run", async () => {
  const api = await fake(CONTEXT, STORED);
  let seen;
  const answer = await new Client({ url: api.url, adviceTimeout: 10_000 }).run("Where?", async (run) => {
    seen = run;
    assert.deepEqual(run.messages, CONTEXT[1].messages);
    run.tool("lookup", { id: 7 }, "found");
    run.tool("lookup", "x", { error: "none" }, true);
    run.outcome = true;
    return "Here.";
  }, { session: "s-1" });
  assert.equal(answer, "Here.");
  const { body } = api.requests[1];
  assert.deepEqual(body.steps.map((step) => step.tool_calls[0]), [
    { tool: "lookup", arguments: '{"id":7}', output: "found", outcome: "success" },
    { tool: "lookup", arguments: "x", output: '{"error":"none"}', outcome: "failure" },
  ]);
  assert.deepEqual([body.context_id, body.question, body.answer, body.outcome, body.session], ["c-1", "Where?", "Here.", true, "s-1"]);
  assert.deepEqual([seen.handle, seen.degraded], ["17-ab12cd34", ""]);
});

test("sub-agents have the id of their run", async () => {
  for (const fields of [{}, { session: "s-1" }, { run_id: "r-1" }]) {
    const api = await fake(CONTEXT, CONTEXT, CONTEXT, STORED, STORED, STORED);
    await new Client({ url: api.url, adviceTimeout: 10_000 }).run("q", (run) => run.subAgent("p", (sub) => sub.subAgent("o", () => "a", { limit: 9 })), fields);
    const bodies = api.requests.map((request) => request.body);
    const named = fields.session ?? fields.run_id ?? bodies[0].run_id;
    assert.ok(named);
    assert.deepEqual(bodies.slice(0, 3).map((body) => [body.run_id, body.session]), [[named, fields.session], [named, undefined], [named, undefined]]);
    assert.deepEqual([bodies[2].query, bodies[2].limit, bodies[3].run_id], ["o", 9, undefined]); // otherwise the reports were copies of one run
  }
});

test("a run begins in time", async () => {
  const api = await fake("hang");
  const started = Date.now();
  let waited, seen;
  await new Client({ url: api.url, timeout: 50 }).run("q", (run) => {
    waited = Date.now() - started;
    seen = run;
  });
  assert.ok(waited >= 140 && waited < 1000, String(waited));
  assert.match(seen.degraded, /: no reply within the timeout of 150 ms$/); // the server may well run
  assert.deepEqual([seen.messages, api.requests[0].path, api.requests[1].path], [[{ role: "user", content: "q" }], "/api/v1/contexts", "/api/v1/executions"]); // advice is requested once
});

test("an exception is a failure", async () => {
  const api = await fake(CONTEXT, STORED);
  await assert.rejects(new Client({ url: api.url, adviceTimeout: 10_000 }).run("q", () => { throw new RangeError("x"); }), RangeError);
  assert.deepEqual(api.requests[1].body.outcome, { label: "failure", feedback: "RangeError: x" });
});

test("the exception of the agent comes before that of the report", async () => {
  const api = await fake(CONTEXT, [400, { detail: "answer: required" }]);
  await assert.rejects(new Client({ url: api.url, adviceTimeout: 10_000 }).run("q", () => { throw new RangeError("x"); }), RangeError);
});

test("an invalid request of a run is not hidden", async () => {
  for (const replies of [[[400, { detail: "query: required" }]], [CONTEXT, [400, { detail: "query: required" }]]]) {
    const api = await fake(...replies);
    await assert.rejects(new Client({ url: api.url, adviceTimeout: 10_000 }).run("", () => "a"), /query: required/);
  }
});

test("a problem", async () => {
  const api = await fake([400, { detail: "limit: must be at least 1", code: "invalid", field: "limit" }]);
  const error = await failure(api.url);
  assert.deepEqual([error.message, error.status, error.code, error.field, error.temporary], ["limit: must be at least 1 (status 400)", 400, "invalid", "limit", false]);
  assert.equal(api.requests.length, 1);
});

test("unauthorized names the setting", async () => {
  assert.match((await failure((await fake([401, { detail: "missing token" }])).url)).message, /missing token: set DEBRIEF_API_TOKEN .*status 401/);
});

test("an error without a problem", async () => {
  for (const body of ["<html>", "[1]", "", '"x"', "null"]) assert.equal((await failure((await fake([404, body])).url)).message, "Not Found (status 404)");
});

test("another server than Debrief", async () => {
  for (const body of ["<html>", "[1]", "null", ""]) {
    const error = await failure((await fake([200, body])).url);
    assert.match(error.message, /is this the address of Debrief.*DEBRIEF_URL/);
    assert.deepEqual([error.status, error.temporary], [200, false]);
  }
});

test("invalid address", () => {
  assert.throws(() => new Client({ url: "localhost:4280" }), /want an address such as http.*DEBRIEF_URL/);
});

// These tests wait between attempts.
describe("retries", { concurrency: true }, () => {
  test("a run without a server", async () => {
    let seen;
    await new Client({ url: await unused() }).run("Where?", (run) => { seen = run; });
    assert.deepEqual(seen.messages, [{ role: "user", content: "Where?" }]);
    assert.match(seen.degraded, /DEBRIEF_URL/);
    seen.advice = true;
    assert.deepEqual(seen.messages, []);
    assert.equal(seen.handle, "");
  });

  test("unreachable names the setting", async () => {
    const error = await failure(await unused());
    assert.match(error.message, /is 'debrief up' or the gateway running.*DEBRIEF_URL/);
    assert.equal(error.temporary, true);
  });

  test("temporary errors are retried", async () => {
    await Promise.all([BUSY, [429, {}], [502, "bad gateway"], "close", [200, '{"context_id"', "cut"]].map(async (reply) => {
      const api = await fake(reply, reply, CONTEXT);
      assert.equal((await new Client({ url: api.url }).context("q")).context_id, "c-1");
      assert.equal(api.requests.length, ATTEMPTS);
    }));
  });

  test("retries end", async () => {
    const api = await fake(BUSY);
    const error = await failure(api.url);
    assert.deepEqual([api.requests.length, error.status, error.code, error.temporary], [ATTEMPTS, 503, "unavailable", true]);
    assert.match(error.message, /start a generator/);
  });

  test("a repeated report has the same id", async () => {
    const api = await fake(BUSY, "close", STORED);
    await new Client({ url: api.url }).report({ answer: "a" });
    assert.equal(new Set(api.requests.map(({ body }) => body.run_id)).size, 1);
  });

  test("timeout", async () => {
    const api = await fake("hang");
    const error = await failure(api.url, { timeout: 1000 }); // for all attempts: an agent waits for them
    assert.deepEqual([api.requests.length, error.status, error.temporary], [1, 0, true]);
    assert.match(error.message, /timeout/);
  });
});

test("a real server", { skip: process.env.DEBRIEF_TEST_URL ? false : "DEBRIEF_TEST_URL names no server" }, async () => {
  const client = new Client({ url: process.env.DEBRIEF_TEST_URL, book: "node", adviceTimeout: 10_000 });
  let seen;
  await client.run("Which shelf is highest?", (run) => {
    seen = run;
    run.tool("lookup", { shelf: 7 }, "high");
    run.outcome = 0.5;
    return "Shelf 7.";
  }, { session: "js-1" });
  assert.equal(seen.degraded, "");
  assert.equal(seen.messages.at(-1).role, "user");
  assert.ok((await client.feedback(seen.handle, { label: "success", feedback: "right" })).handle);
  assert.ok((await client.report({ question: "q", answer: "a", outcome: "failure" })).handle);
  await assert.rejects(client.context(""), (error) => error.status === 400 && error.code === "invalid");
  await assert.rejects(client.feedback("999-00000000", true), (error) => error.status === 404);
});
