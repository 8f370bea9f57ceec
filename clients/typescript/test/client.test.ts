/** Tests on the running service that RETRIEVAL_URL and RETRIEVAL_KEY name; tests/acceptance starts one. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { addEach, connect, NoAnswerError, ok, ProblemError, type Options } from "../src/index.js";

const baseUrl = process.env.RETRIEVAL_URL;
const key = process.env.RETRIEVAL_KEY;
if (!baseUrl || !key) throw new Error("RETRIEVAL_URL and RETRIEVAL_KEY have to be set");

const access: Options = { baseUrl, key };
const client = connect(access);
const params = { path: { name: `typescript-${randomUUID()}` } };

test("items are stored, found and judged", async () => {
  await ok(client.PUT("/v1/collections/{name}", { params, body: {} }));
  const items = [
    { id: "a", title: "Database connection times out", text: "Every second request waits.", priority: "High" },
    { id: "b", title: "Log files fill the disk", text: "Rotation is off.", priority: "Low" },
  ];
  const added = await ok(client.POST("/v1/collections/{name}/items", { params, body: { items } }));
  assert.equal(added.added, 2);

  const body = { query: "connection times out", where: { priority: "High" }, limit: 5 };
  const found = await ok(client.POST("/v1/collections/{name}/search", { params, body }));
  assert.deepEqual(found.hits.map((hit) => hit.id), ["a"]);
  assert.ok(found.retrieval_id);

  const event = { retrieval_id: found.retrieval_id, item_id: "a", helpful: true };
  const judged = await ok(client.POST("/v1/feedback", { body: event }));
  assert.equal(judged.recorded, 1);
});

test("a name is percent-encoded", async () => {
  const odd = { path: { name: params.path.name, item_id: "x/y ü?" } };
  const path = "/v1/collections/{name}/items/{item_id}";
  await ok(client.PUT(path, { params: odd, body: { title: "odd" } }));
  const stored = await ok(client.GET(path, { params: odd }));
  assert.equal(stored.id, "x/y ü?");
});

test("a stream of items has a result for each", async () => {
  const lines = [];
  const items = [{ id: "c", title: "Mail is late" }, { title: "no id" }];
  for await (const line of addEach(client, params.path.name, items)) lines.push(line);
  assert.equal(lines.length, 3);
  assert.deepEqual(lines[0], { line: 1, item_id: "c", result: "added" });
  assert.equal(lines[1]?.error?.type, "/problems/invalid-item");
  assert.equal(lines[1]?.error?.item_id, undefined);
  assert.deepEqual([lines[2]?.summary?.added, lines[2]?.summary?.rejected], [1, 1]);
  for await (const line of addEach(client, params.path.name, items)) {
    assert.equal(line.result, "unchanged");
    break; // the rest of the response is not read
  }
});

test("a text or a file is stored as it is", async () => {
  const path = "/v1/collections/{name}/documents/{document_id}";
  const text = '# Travel\n\nWrite "booked" on the form.\nSend it by mail.';
  const bodies = { text, file: new Blob([text]), bytes: Buffer.from(text) };
  for (const [document_id, body] of Object.entries(bodies)) {
    const document = { path: { name: params.path.name, document_id } };
    await ok(client.PUT(path, { params: document, body, headers: { "Content-Type": "text/markdown" } }));
    const stored = await ok(client.GET(path, { params: document }));
    assert.match(stored.text, /Write "booked" on the form\.\sSend it by mail\./);
  }
});

test("a text without a content type is stored as it is, or refused", async () => {
  const path = "/v1/collections/{name}/documents/{document_id}";
  const document = { path: { name: params.path.name, document_id: "travel.md" } };
  await ok(client.PUT(path, { params: document, body: 'Write "booked".' }));
  assert.equal((await ok(client.GET(path, { params: document }))).text, 'Write "booked".');

  const unnamed = { path: { name: params.path.name, document_id: "travel" } };
  const refused = client.PUT(path, { params: unnamed, body: "Write it." });
  await assert.rejects(ok(refused), (error: unknown) => error instanceof ProblemError && error.status === 422);
  const lines = client.POST("/v1/collections/{name}/items/bulk", { params, body: '{"id":"d","title":"D"}\n' });
  await assert.rejects(ok(lines), (error: unknown) => error instanceof ProblemError && error.status === 415);
});

test("lines and tables are sent as they are", async () => {
  const bulk = "/v1/collections/{name}/items/bulk";
  const bodies = { "application/x-ndjson": '{"id":"e","title":"E"}\n', "text/csv": "id,title\nf,F\n" };
  for (const [type, body] of Object.entries(bodies)) {
    const sent = client.POST(bulk, { params, body, headers: { "Content-Type": type }, parseAs: "text" });
    assert.match(await ok(sent), /"result":"added"/);
  }
});

test("an error has its type", async () => {
  const asked = client.GET("/v1/collections/{name}", { params: { path: { name: "no-such-collection" } } });
  await assert.rejects(ok(asked), (error: unknown) => {
    assert.ok(error instanceof ProblemError);
    assert.equal(error.type, "/problems/unknown-collection");
    assert.equal(error.status, 404);
    assert.equal(error.problem.instance, "/v1/collections/no-such-collection");
    return true;
  });
});

test("a wrong key is refused", async () => {
  const asked = connect({ baseUrl, key: "rtv_wrong" }).GET("/v1/collections");
  await assert.rejects(ok(asked), (error: unknown) => error instanceof ProblemError && error.status === 401);
});

test("a write whose answer was lost is sent again, and done once", async () => {
  let lost = 0;
  const losing = async (request: Request): Promise<Response> => {
    const response = await fetch(request);
    if (lost++ === 0) throw new TypeError("the connection was lost");
    return response;
  };
  const path = { path: { name: params.path.name, item_id: "once" } };
  const headers = { "If-None-Match": "*" };
  const put = connect({ ...access, fetch: losing }).PUT("/v1/collections/{name}/items/{item_id}", {
    params: path,
    body: { title: "Once" },
    headers,
  });
  await ok(put);
  assert.equal((await put).response.headers.get("Idempotency-Replayed"), "true");
  assert.equal(lost, 2);
});

test("a request that is asked to wait is repeated", async () => {
  for (const status of [409, 429, 503]) {
    let asked = 0;
    const busy = async (request: Request): Promise<Response> =>
      asked++ === 0 ? new Response("busy", { status, headers: { "Retry-After": "0" } }) : fetch(request);
    const collections = await ok(connect({ ...access, fetch: busy }).GET("/v1/collections"));
    assert.ok(Array.isArray(collections.collections));
    assert.equal(asked, 2);
  }
});

test("an aborted request does not wait for its next attempt", async () => {
  const aborting = new AbortController();
  const busy = async (): Promise<Response> => {
    setTimeout(() => aborting.abort(), 10);
    return new Response("busy", { status: 503, headers: { "Retry-After": "10" } });
  };
  const began = Date.now();
  const asked = connect({ ...access, fetch: busy }).GET("/v1/collections", { signal: aborting.signal });
  await assert.rejects(asked, { name: "AbortError" });
  assert.ok(Date.now() - began < 9_000);
});

test("an answer of a proxy is an error too", async () => {
  const proxy = async (): Promise<Response> => new Response("<html>", { status: 502, statusText: "Bad Gateway" });
  const asked = connect({ ...access, fetch: proxy }).GET("/v1/collections");
  await assert.rejects(ok(asked), (error: unknown) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.type, error.status], ["about:blank", 502]);
    return true;
  });
});

test("a service that is not there is named", async () => {
  const asked = connect({ baseUrl: "http://127.0.0.1:1", retries: 0 }).GET("/v1/collections");
  await assert.rejects(asked, (error: unknown) => {
    assert.ok(error instanceof NoAnswerError && error.cause instanceof TypeError);
    assert.match(error.message, /no answer from GET http:\/\/127\.0\.0\.1:1\/v1\/collections/);
    return true;
  });
});
