/** A typed client of the HTTP service: every path, body and response has the types of the service's own description. */

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";

/** The service's description of an error (RFC 9457). */
export type Problem = components["schemas"]["Problem"];

/** `GET`, `POST`, `PUT`, `PATCH` and `DELETE` with the paths of the service. */
export type RetrievalClient = Client<paths>;

export interface Options {
  /** The address of the service, such as `https://search.example`. */
  baseUrl: string;
  /** An API key; a service that was started with `--insecure-local` needs none. */
  key?: string | undefined;
  /** The number of times that a request is repeated if the service does not answer, or asks to wait. Default: 2. */
  retries?: number;
  /**
   * The time limit of one attempt and its whole response, in seconds; a stream of items has none. Default: 40, because the
   * service itself ends a request after 30 seconds, and may answer a write up to 5 seconds later.
   */
  timeoutSeconds?: number;
  /** The longest wait before the next attempt, in seconds. Default: 10. */
  maxWaitSeconds?: number;
  /** Sends one request; default: the global `fetch`. */
  fetch?: Sender;
}

type Sender = (request: Request) => Promise<Response>;

/** The result of one item of a stream; the last one is the summary of all items. */
export interface Line {
  /** The number of the item, from 1; the summary has none. */
  line?: number;
  item_id?: string;
  result?: "added" | "changed" | "unchanged";
  /** The reason why the item was refused; with the summary, the reason why the stream ended early. */
  error?: Problem;
  /** The number of items with each result, further figures, and notes. */
  summary?: Summary;
}

export interface Summary {
  added: number;
  changed: number;
  unchanged: number;
  rejected: number;
  embedded: number;
  pending: number;
  repeated: number;
  cut: number;
  notes: string[];
  /** The value of the header `Retrieval-After-Write` of a search, if the service uses read replicas. */
  token?: string;
}

/** A response that is an error. */
export class ProblemError extends Error {
  /** The type of the error, such as `/problems/unknown-collection`. */
  readonly type: string;

  constructor(
    /** The HTTP status. */
    readonly status: number,
    readonly problem: Problem,
    /** The seconds after which the request may be repeated; undefined: waiting does not help. */
    readonly retryAfter: number | undefined,
  ) {
    super(problem.detail);
    this.name = "ProblemError";
    this.type = problem.type;
  }
}

/** There was no whole response: the service cannot be reached, took too long, or broke off; `cause` is the error. */
export class NoAnswerError extends Error {
  constructor(request: Pick<Request, "method" | "url">, cause: unknown) {
    super(`no answer from ${request.method} ${request.url}: ${String(cause)}`, { cause });
    this.name = "NoAnswerError";
  }
}

type Answer<Data> =
  | { data: Data; error?: never; response: Response }
  | { data?: never; error: unknown; response: Response };

/** A client of the service at `baseUrl`. Nothing is sent until it is called. */
export function connect(options: Options): RetrievalClient {
  const headers: Record<string, string> = options.key === undefined ? {} : { Authorization: `Bearer ${options.key}` };
  const send = async (request: Request): Promise<Response> => {
    try {
      return await sendRepeated(request, options);
    } catch (error) {
      throw request.signal.aborted ? error : new NoAnswerError(request, error);
    }
  };
  return createClient<paths>({ baseUrl: options.baseUrl, headers, bodySerializer: serialized, fetch: send });
}

/** The data of a response. Throws `ProblemError` if the response is an error. */
export async function ok<Data>(answer: Promise<Answer<Data>>): Promise<Exclude<Data, undefined>> {
  const { data, error, response } = await answer;
  if (response.ok) return data as Exclude<Data, undefined>; // without exactOptionalPropertyTypes `data?` adds undefined
  throw new ProblemError(response.status, problemOf(error, response), retryAfter(response));
}

/**
 * Store any number of items; yields the result of each, and at the end the summary.
 *
 * The items are sent in requests of some MiB, one after the other, so that neither they nor their results are in memory
 * as a whole. An id that occurs twice is noticed (`repeated`) only within a request.
 *
 * Throws `ProblemError` if a request is refused, and `NoAnswerError` if it fails or its response breaks off; the items of
 * the requests before it are stored. A caller may send all items again, because those that are stored are `unchanged`.
 */
export async function* addEach(
  client: RetrievalClient,
  collection: string,
  items: Iterable<components["schemas"]["ItemSent"]>,
): AsyncGenerator<Line> {
  const total: Summary = {
    added: 0, changed: 0, unchanged: 0, rejected: 0, embedded: 0, pending: 0, repeated: 0, cut: 0, notes: [],
  };
  let before = 0;
  for (const part of partsOf(items)) {
    const { data, error, response } = await client.POST("/v1/collections/{name}/items/bulk", {
      params: { path: { name: collection } },
      headers: { "Content-Type": "application/x-ndjson" },
      body: part.text,
      parseAs: "stream",
    });
    if (!data) throw new ProblemError(response.status, problemOf(error, response), retryAfter(response));
    for await (const line of linesOf(data, response)) {
      if (line.summary) include(total, line.summary);
      else yield { ...line, line: before + (line.line ?? 0) };
      if (line.error && line.summary) return yield { ...line, summary: total };
    }
    before += part.lines;
  }
  yield { summary: total };
}

/** The least length of the text of one request, unless all items are shorter. */
const PART = 8 * 1024 * 1024;

/** The items as texts of lines. The last one is no shorter: the service refuses a short text without any valid item. */
function* partsOf(items: Iterable<unknown>): Generator<{ text: string; lines: number }> {
  let part = { text: "", lines: 0 };
  let rest = { text: "", lines: 0 };
  for (const item of items) {
    rest.text += `${JSON.stringify(item)}\n`;
    rest.lines++;
    if (rest.text.length < PART) continue;
    if (part.lines) yield part;
    part = rest;
    rest = { text: "", lines: 0 };
  }
  yield { text: part.text + rest.text, lines: part.lines + rest.lines };
}

/** Add the figures of one request's summary to those of the requests before it. */
function include(total: Summary, summary: Summary): void {
  const { notes, token, ...figures } = summary;
  for (const [name, figure] of Object.entries(figures)) total[name as keyof typeof figures] += figure;
  total.notes = [...new Set([...total.notes, ...notes])];
  if (token !== undefined) total.token = token;
}

/** A body as it is sent: texts and files unchanged, anything else as JSON. */
function serialized(body: unknown): unknown {
  return typeof body === "string" || body instanceof Blob || body instanceof Uint8Array ? body : JSON.stringify(body);
}

/** The statuses that ask to wait, by `Retry-After`; 409: an earlier attempt of the same write is in progress. */
const WAITING = new Set([409, 429, 503]);

/** Send the request, and repeat it if necessary; a write has an idempotency key, so that it is done once. */
async function sendRepeated(request: Request, options: Options): Promise<Response> {
  const { retries = 2, timeoutSeconds = 40, maxWaitSeconds = 10, fetch: send = fetch } = options;
  const isStream = request.method === "POST" && new URL(request.url).pathname.endsWith("/items/bulk");
  if (request.method !== "GET" && !isStream && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
  for (let attempt = 0; ; attempt++) {
    request.signal.throwIfAborted();
    const isLast = attempt >= retries;
    let wait = Math.min(2 ** attempt / 4, maxWaitSeconds);
    try {
      const response = await (isStream ? send(request.clone()) : sendWithin(timeoutSeconds, request, send));
      const asked = retryAfter(response);
      if (isLast || !WAITING.has(response.status) || asked === undefined || asked > maxWaitSeconds) return response;
      await response.body?.cancel();
      wait = asked;
    } catch (error) {
      if (isLast || isStream || request.signal.aborted) throw error;
    }
    await waited(wait, request.signal);
  }
}

const LONGEST_TIMER = 2 ** 31 - 1;

/** The response with its whole body, within the time limit. */
async function sendWithin(seconds: number, request: Request, send: Sender): Promise<Response> {
  const stop = new AbortController();
  const sent = new Request(request.clone(), { signal: stop.signal });
  const follow = (): void => stop.abort(request.signal.reason);
  // The timer names `sent` to keep it: a request that nothing refers to is collected, and no longer hears of its signal.
  // The results of AbortSignal.any and AbortSignal.timeout are collected in the same way.
  const late = (): void => stop.abort(new DOMException(`${sent.url} took more than ${seconds} s`, "TimeoutError"));
  const timer = setTimeout(late, Math.min(seconds * 1000, LONGEST_TIMER));
  request.signal.addEventListener("abort", follow);
  try {
    const response = await send(sent);
    return response.body === null ? response : new Response(await response.arrayBuffer(), response);
  } finally {
    clearTimeout(timer);
    request.signal.removeEventListener("abort", follow);
  }
}

/** Wait for the seconds, or until the signal is aborted. */
async function waited(seconds: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    // Not AbortSignal.timeout, whose timer does not keep a program of Node running.
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function retryAfter(response: Response): number | undefined {
  const value = Number(response.headers.get("Retry-After") ?? NaN);
  return Number.isFinite(value) ? value : undefined;
}

/** The problem in the response; a proxy's own errors have other forms. */
function problemOf(error: unknown, response: Response): Problem {
  if (typeof error === "object" && error !== null && "type" in error && "detail" in error) return error as Problem;
  const detail = typeof error === "string" && error ? error : `${response.status} ${response.statusText}`;
  return { type: "about:blank", title: response.statusText, status: response.status, detail };
}

/** The lines of the response. Throws `NoAnswerError` if it breaks off before the summary. */
async function* linesOf(stream: ReadableStream<Uint8Array>, response: Response): AsyncGenerator<Line> {
  // Not every browser iterates over a stream.
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  const broken = (cause: unknown) => new NoAnswerError({ method: "POST", url: response.url }, cause);
  const read = () => reader.read().catch((cause: unknown) => Promise.reject(broken(cause)));
  let rest = "";
  let isComplete = false;
  try {
    for (let part = await read(); !part.done; part = await read()) {
      const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const text of lines) {
        const line = JSON.parse(text) as Line;
        isComplete = line.summary !== undefined;
        yield line;
      }
    }
    if (!isComplete) throw broken(new Error("the results ended without a summary"));
  } finally {
    await reader.cancel().catch(() => undefined); // a broken stream cannot be cancelled
  }
}
