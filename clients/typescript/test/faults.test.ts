/** Tests on servers that do not answer, answer in part, or count what they are sent. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo } from "node:net";
import { after, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { addEach, connect, NoAnswerError, ok, ProblemError, type Line, type Summary } from "../src/index.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** The address of a server that answers in that way. */
async function serving(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => (server.closeAllConnections(), server.close()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The milliseconds until the promise is refused, while garbage is collected all the time; at most 15,000. */
async function refusedAfter(asked: Promise<unknown>, isExpected: (error: Error) => boolean): Promise<number> {
  const began = Date.now();
  const collecting = setInterval(collectGarbage, 50);
  let giveUp: NodeJS.Timeout | undefined;
  const never = new Promise((resolve) => (giveUp = setTimeout(resolve, 15_000)));
  try {
    await assert.rejects(Promise.race([asked, never]), isExpected);
  } finally {
    clearInterval(collecting);
    clearTimeout(giveUp);
  }
  return Date.now() - began;
}

const isLate = (error: Error): boolean =>
  error instanceof NoAnswerError && error.cause instanceof DOMException && error.cause.name === "TimeoutError";

test("the time limit holds though garbage is collected", async () => {
  const baseUrl = await serving(() => undefined);
  const asked = connect({ baseUrl, timeoutSeconds: 1, retries: 0 }).GET("/v1/collections");
  assert.ok((await refusedAfter(asked, isLate)) < 10_000);
});

test("the caller's abort holds though garbage is collected", async () => {
  const baseUrl = await serving(() => undefined);
  const aborting = new AbortController();
  setTimeout(() => aborting.abort(), 1000);
  const asked = connect({ baseUrl, retries: 0 }).GET("/v1/collections", { signal: aborting.signal });
  assert.ok((await refusedAfter(asked, (error) => error.name === "AbortError")) < 10_000);
});

test("a request that was aborted before is not sent", async () => {
  let sent = 0;
  const fetch = async (): Promise<Response> => (sent++, new Response("{}"));
  const asked = connect({ baseUrl: "http://example", fetch }).GET("/v1/collections", { signal: AbortSignal.abort() });
  await assert.rejects(asked, { name: "AbortError" });
  assert.equal(sent, 0);
});

test("the time limit is no shorter than the service's own", async () => {
  const timers: number[] = [];
  const usual = globalThis.setTimeout;
  const noting = (call: () => void, milliseconds: number) => (timers.push(milliseconds), usual(call, milliseconds));
  globalThis.setTimeout = noting as typeof setTimeout;
  try {
    await connect({ baseUrl: "http://example", fetch: async () => new Response("{}") }).GET("/v1/collections");
    const forever = { timeoutSeconds: Infinity, fetch: async () => new Response("{}") };
    await connect({ baseUrl: "http://example", ...forever }).GET("/v1/collections");
  } finally {
    globalThis.setTimeout = usual;
  }
  assert.deepEqual(timers, [40_000, 2 ** 31 - 1]);
});

test("an answer that breaks off is asked for again", async () => {
  let asked = 0;
  const baseUrl = await serving((_, response) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "18" });
    if (asked++ === 0) response.write('{"coll', () => response.destroy());
    else response.end('{"collections":[]}');
  });
  const { collections } = await ok(connect({ baseUrl }).GET("/v1/collections"));
  assert.deepEqual([collections, asked], [[], 2]);
});

test("an answer that breaks off or is late names its address", async () => {
  const broken = await serving((_, response) => {
    response.writeHead(200, { "Content-Length": "18" });
    response.write("{", () => response.destroy());
  });
  await assert.rejects(connect({ baseUrl: broken, retries: 0 }).GET("/v1/collections"), NoAnswerError);

  const slow = await serving((_, response) => void response.writeHead(200).write("{"));
  const asked = connect({ baseUrl: slow, retries: 0, timeoutSeconds: 1 }).GET("/v1/collections");
  await refusedAfter(asked, (error) => isLate(error) && error.message.includes(`${slow}/v1/collections`));
});

test("answers without a body have none", async () => {
  const baseUrl = await serving((request, response) => {
    response.writeHead(request.method === "DELETE" ? 204 : 304, { ETag: '"1"' }).end();
  });
  const params = { path: { name: "tickets", item_id: "a" } };
  const path = "/v1/collections/{name}/items/{item_id}";
  assert.equal((await connect({ baseUrl }).DELETE("/v1/collections/{name}", { params })).response.status, 204);
  assert.equal((await connect({ baseUrl }).GET(path, { params })).response.status, 304);
});

test("any number of items is stored, in requests of some MiB", async () => {
  let drawn = 0;
  const items = function* () {
    while (drawn < 60) yield { id: `${++drawn}`, text: "x".repeat(1_000_000) };
  };
  const lengths: number[] = [];
  const drawnBefore: number[] = [];
  // A service that refuses the second item of each request.
  const baseUrl = await serving(async (request, response) => {
    drawnBefore.push(drawn);
    let text = "";
    for await (const part of request) text += part;
    lengths.push(text.length);
    const ids = text.trimEnd().split("\n").map((line) => (JSON.parse(line) as { id: string }).id);
    const error = { type: "/problems/invalid-item" };
    const results = ids.map((item_id, index) => (index === 1 ? { error } : { item_id, result: "added" }));
    const counts = { added: ids.length - 1, changed: 0, unchanged: 0, rejected: 1, embedded: 0, pending: 0 };
    const summary = { ...counts, repeated: 0, cut: 0, notes: ["a note"], token: `token ${lengths.length}` };
    const lines = [...results.map((result, index) => ({ line: index + 1, ...result })), { summary }];
    response.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  });
  const lines: Line[] = [];
  for await (const line of addEach(connect({ baseUrl }), "tickets", items())) lines.push(line);
  const last = lines.pop()?.summary as Summary;

  assert.deepEqual(lines.map((line) => line.line), Array.from({ length: 60 }, (_, index) => index + 1));
  assert.equal(lines[59]?.item_id, "60");
  assert.deepEqual(lengths.map((length) => Math.round(length / 1_000_000)), [9, 9, 9, 9, 9, 15]);
  assert.deepEqual(drawnBefore.slice(0, 2), [18, 27]);
  assert.deepEqual([last.added, last.rejected], [54, 6]);
  assert.deepEqual([last.notes, last.token], [["a note"], "token 6"]);
});

test("a stream that ends without its summary is an error", async () => {
  const partial = '{"line":1,"item_id":"a","result":"added"}\n{"line":2,"item';
  const ended = await serving((_, response) => void response.end(partial));
  const broken = await serving((_, response) => void response.write(partial, () => response.destroy()));
  for (const baseUrl of [ended, broken]) {
    const lines: Line[] = [];
    const storing = async (): Promise<void> => {
      for await (const line of addEach(connect({ baseUrl }), "tickets", [{ id: "a" }, { id: "b" }])) lines.push(line);
    };
    await assert.rejects(storing, (error: Error) => error instanceof NoAnswerError && error.message.includes(baseUrl));
    assert.deepEqual(lines, [{ line: 1, item_id: "a", result: "added" }]);
  }
});

test("a stream that the service ends early sends no further items", async () => {
  let asked = 0;
  const error = { type: "/problems/stopping", title: "", status: 503, detail: "the service is shutting down" };
  const baseUrl = await serving((request, response) => {
    asked++;
    request.resume().on("end", () => response.end(`${JSON.stringify({ summary: { added: 0, notes: [] }, error })}\n`));
  });
  const items = Array.from({ length: 30 }, (_, number) => ({ id: `${number}`, text: "x".repeat(1_000_000) }));
  const lines: Line[] = [];
  for await (const line of addEach(connect({ baseUrl }), "tickets", items)) lines.push(line);
  assert.deepEqual([lines.length, lines[0]?.error, asked], [1, error, 1]);
});

test("a part of a stream that is asked to wait is sent again, and one that is refused is an error", async () => {
  let asked = 0;
  const summary = { added: 1, notes: [] };
  const fetch = async (): Promise<Response> => {
    if (asked++ === 0) return new Response("busy", { status: 429, headers: { "Retry-After": "0" } });
    return asked === 2 ? new Response(`${JSON.stringify({ summary })}\n`) : new Response("no", { status: 403 });
  };
  const client = connect({ baseUrl: "http://example", fetch });
  const lines: Line[] = [];
  for await (const line of addEach(client, "tickets", [{ id: "a" }])) lines.push(line);
  assert.equal(lines[0]?.summary?.added, 1);
  await assert.rejects(addEach(client, "tickets", [{ id: "a" }]).next(), ProblemError);
});
