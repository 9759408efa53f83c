// Let an agent learn from its runs with Debrief.
//
// One module without dependencies, for Node 18 and later, Deno, Bun and browsers. Download it from a gateway or from 'debrief up':
//
//     curl -O http://127.0.0.1:4280/clients/debrief.mjs
//
// Use it in an agent:
//
//     import { Client } from "./debrief.mjs";
//
//     const debrief = new Client();
//     const answer = await debrief.run("Where is the globe?", async (run) => {
//       if (run.degraded) console.warn(run.degraded);
//       return yourModel(run.messages);
//     });
//
// The result of the function is the answer. The run is reported after the function; an exception makes it a failure. The function
// begins within 150 ms. If Debrief is down or slower, the messages contain only the query, and run.degraded is the reason.
//
// The settings are environment variables where the platform has them: DEBRIEF_URL (http://127.0.0.1:4280), DEBRIEF_API_TOKEN,
// DEBRIEF_BOOK (default).

/**
 * @typedef {boolean | number | string | {label?: string, score?: number, feedback?: string}} Outcome
 *   true, false, a score from 0 to 1, a label such as "success", or an object.
 * @typedef {{role: string, content: string}} Message
 * @typedef {{context_id?: string, playbook_version: number, messages: Message[], shown: {id: string, content: string}[]}} Context
 * @typedef {{handle: string, duplicate?: boolean, warnings?: string[]}} Stored
 */

const ATTEMPTS = 3;
const TEMPORARY = [408, 429, 502, 503, 504];

/** An error reply of the API, or a failure to reach it. status is the HTTP status, or 0 without a reply. */
export class DebriefError extends Error {
  /**
   * @param {string} text
   * @param {number} [status]
   * @param {string} [code]
   * @param {string} [field]
   */
  constructor(text, status = 0, code = "", field = "") {
    super(text);
    this.name = "DebriefError";
    this.status = status;
    this.code = code;
    this.field = field;
  }

  /** Reports whether the same request can succeed later. */
  get temporary() {
    return this.status === 0 || TEMPORARY.includes(this.status);
  }
}

/** A client of the API. */
export class Client {
  /**
   * @param {{url?: string, token?: string, book?: string, timeout?: number, adviceTimeout?: number}} [options] The times are in
   *   milliseconds: timeout for a request with its repetitions, and adviceTimeout for the context of a run.
   */
  constructor(options = {}) {
    const env = globalThis.process?.env ?? {};
    this.url = (options.url || env.DEBRIEF_URL || "http://127.0.0.1:4280").replace(/\/+$/, "");
    if (!/^https?:\/\//.test(this.url)) throw new TypeError(`${this.url}: want an address such as http://127.0.0.1:4280: set DEBRIEF_URL`);
    this.token = options.token ?? env.DEBRIEF_API_TOKEN ?? "";
    this.book = options.book || env.DEBRIEF_BOOK || "default";
    this.timeout = options.timeout ?? 12000;
    this.adviceTimeout = options.adviceTimeout ?? 150;
  }

  /**
   * Returns a context: messages for the model, and context_id for the report.
   * @param {string} query
   * @param {Record<string, unknown>} [fields] session, system, steps, limit, advice, …
   * @returns {Promise<Context>}
   */
  context(query, fields = {}) {
    return this.#post("contexts", { book: this.book, query, ...fields });
  }

  /**
   * Stores an execution and returns its handle.
   * @param {Record<string, unknown> & {outcome?: Outcome}} fields context_id, question, answer, steps or messages, session, outcome, …
   * @returns {Promise<Stored>}
   */
  report(fields) {
    const ids = fields.context_id ? {} : { book: this.book, run_id: randomId() }; // a repeated request counts once
    return this.#post("executions", { ...ids, ...fields });
  }

  /**
   * Records the outcome of an execution, also days later.
   * @param {string} execution its handle, or the response id of a model call
   * @param {Outcome} outcome
   * @param {Record<string, unknown>} [fields]
   * @returns {Promise<Stored>}
   */
  feedback(execution, outcome, fields = {}) {
    return this.#post("feedback", { book: this.book, id: randomId(), execution, outcome, ...fields });
  }

  /**
   * Calls work with a run, reports the run, and returns the result of work.
   * @template T
   * @param {string} query
   * @param {(run: Run) => T | Promise<T>} work
   * @param {Record<string, unknown>} [fields] those of context
   * @returns {Promise<T>}
   */
  async run(query, work, fields = {}) {
    const run = new Run(query, this, fields.run_id || fields.session || randomId(), fields.advice);
    const started = Date.now();
    try {
      run.context = await this.#send("contexts", { book: this.book, query, ...fields, run_id: run.runId }, this.adviceTimeout);
    } catch (error) {
      if (!(error instanceof DebriefError) || !error.temporary) throw error;
      run.degraded = error.message;
    }
    const finish = async () => {
      try {
        const stored = await this.report({
          context_id: run.context?.context_id ?? "", question: query, answer: text(run.answer ?? ""), steps: run.steps,
          session: fields.session ?? "", duration_ns: (Date.now() - started) * 1e6, ...(run.outcome === undefined ? {} : { outcome: run.outcome }),
        });
        run.handle = stored.handle;
      } catch (error) {
        if (!(error instanceof DebriefError) || !error.temporary) throw error;
        run.degraded ||= error.message;
      }
    };
    let result;
    try {
      result = await work(run);
    } catch (error) {
      run.outcome ??= { label: "failure", feedback: String(error) };
      await finish().catch(() => {}); // the error of the agent is the one to throw
      throw error;
    }
    run.answer ??= result;
    await finish();
    return result;
  }

  /** @returns {Promise<any>} */
  async #post(path, body) {
    const end = Date.now() + this.timeout;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send(path, body, end - Date.now());
      } catch (error) {
        const pause = 200 * 2 ** (attempt - 1) * (1 + Math.random() / 4);
        if (attempt === ATTEMPTS || !(error instanceof DebriefError) || !error.temporary || Date.now() + pause >= end) throw error;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async #send(path, body, timeout) {
    const headers = { "Content-Type": "application/json", ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    let response, reply;
    try {
      response = await fetch(`${this.url}/api/v1/${path}`, { method: "POST", redirect: "manual", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(Math.max(timeout, 1)) });
      reply = await response.text();
    } catch (error) {
      if (error?.name === "TimeoutError") throw new DebriefError(`${this.url}: no reply within the timeout of ${timeout} ms`);
      const reason = error?.cause?.message || error?.message || error;
      throw new DebriefError(`${this.url}: ${reason}: is 'debrief up' or the gateway running? Set DEBRIEF_URL to its address`);
    }
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) { // another server would get the token
      const status = response.status || 302; // a browser hides it
      throw new DebriefError(`the server redirects to ${response.headers.get("location") ?? "another address"}: set DEBRIEF_URL to the address of Debrief (status ${status})`, status);
    }
    let value;
    try {
      value = JSON.parse(reply);
    } catch {
      value = undefined;
    }
    if (value === null || typeof value !== "object" || Array.isArray(value)) {
      if (response.ok) throw new DebriefError(`${this.url}: the reply is not an object in JSON: is this the address of Debrief? Set DEBRIEF_URL to its address`, response.status);
      value = {};
    }
    if (response.ok) return value;
    const hint = response.status === 401 ? ": set DEBRIEF_API_TOKEN to a token of the tokens file" : "";
    throw new DebriefError(`${value.detail || value.title || response.statusText}${hint} (status ${response.status})`, response.status, value.code, value.field);
  }
}

/** One run of an agent. */
export class Run {
  constructor(query, client, runId, advice = false) {
    this.query = query;
    this.client = client;
    this.runId = runId; // names the run for its sub-agents
    this.advice = advice; // the messages are only advice
    /** @type {Context | undefined} */
    this.context = undefined;
    /** @type {unknown} */
    this.answer = undefined; // default: the result of the function
    /** @type {Outcome | undefined} */
    this.outcome = undefined;
    /** @type {Record<string, unknown>[]} */
    this.steps = [];
    this.handle = ""; // set after the report
    this.degraded = ""; // the reason if Debrief could not be reached
  }

  /**
   * Runs a sub-agent; see Client.run. It is in the same group of the control share, unless it has a session of its own.
   * @template T
   * @param {string} query
   * @param {(run: Run) => T | Promise<T>} work
   * @param {Record<string, unknown>} [fields]
   * @returns {Promise<T>}
   */
  subAgent(query, work, fields = {}) {
    return this.client.run(query, work, { ...fields, run_id: this.runId });
  }

  /** Messages for the model: the context, or only the query if Debrief could not be reached. With the field advice, only the advice, if any. */
  get messages() {
    return this.context?.messages ?? (this.advice ? [] : [{ role: "user", content: this.query }]);
  }

  /**
   * Adds a call of a tool. Arguments and output that are not text are stored as JSON.
   * @param {string} name
   * @param {unknown} args
   * @param {unknown} output
   * @param {boolean} [failed]
   */
  tool(name, args, output, failed = false) {
    const call = { tool: name, arguments: text(args), output: text(output), outcome: failed ? "failure" : "success" };
    this.steps.push({ speaker: "assistant", tool_calls: [call] });
  }
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "";
}

// Node 18 has no global crypto in modules. The ids only have to differ.
function randomId() {
  const uuid = globalThis.crypto?.randomUUID?.() ?? Array.from({ length: 4 }, () => Math.random().toString(16).slice(2, 12).padEnd(10, "0")).join("");
  return uuid.replaceAll("-", "").slice(0, 22);
}
