/** A typed client of the HTTP service: every path, body and answer has the types of the service's own description. */

import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";

/** What the service says of an error (RFC 9457). */
export type Problem = components["schemas"]["Problem"];

/** `GET`, `POST`, `PUT`, `PATCH` and `DELETE` with the paths of the service. */
export type RetrievalClient = Client<paths>;

export interface Options {
  /** Where the service is, such as `https://search.example`. */
  baseUrl: string;
  /** An API key; a service that was started with `--insecure-local` needs none. */
  key?: string | undefined;
  /** How often a request is sent again where the service is away, overloaded or asks to wait. Default: 2. */
  retries?: number;
  /** The longest time that one attempt may take, in seconds. Default: 30. */
  timeoutSeconds?: number;
  /** The longest time to wait before the next attempt, in seconds. Default: 10. */
  maxWaitSeconds?: number;
  /** Sends one request; default: the global `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

/** What became of one line of a stream, or, in the last line, of all. */
export interface Line {
  /** The number of the line, from 1; the last one, the summary, has none. */
  line?: number;
  item_id?: string;
  result?: "added" | "changed" | "unchanged";
  /** Why the line was refused; beside the summary: why the stream ended early. */
  error?: Problem;
  /** How many lines had each result, how many items wait for their vector, and notes. */
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
  /** For the header `Retrieval-After-Write` of a search, where read replicas are used. */
  token?: string;
}

/** An answer that is an error. */
export class ProblemError extends Error {
  /** What programs tell errors apart by, such as `/problems/unknown-collection`. */
  readonly type: string;

  constructor(
    /** The status of HTTP. */
    readonly status: number,
    readonly problem: Problem,
    /** Seconds after which the request may be sent again; undefined: waiting does not help. */
    readonly retryAfter: number | undefined,
  ) {
    super(problem.detail);
    this.name = "ProblemError";
    this.type = problem.type;
  }
}

/** No answer came: the service is not there, or took too long; `cause` tells which. */
export class NoAnswerError extends Error {
  constructor(request: Request, cause: unknown) {
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
  return createClient<paths>({ baseUrl: options.baseUrl, headers, fetch: send });
}

/** The data of an answer. Throws `ProblemError` where the answer is an error. */
export async function ok<Data>(answer: Promise<Answer<Data>>): Promise<Exclude<Data, undefined>> {
  const { data, error, response } = await answer;
  if (response.ok) return data as Exclude<Data, undefined>; // without exactOptionalPropertyTypes `data?` adds undefined
  throw new ProblemError(response.status, problemOf(error, response), retryAfter(response));
}

/**
 * Store any number of items, one a line; yields what became of each line, and last of all the summary.
 *
 * Throws `ProblemError` where the stream is refused. Nothing is sent again: items that are stored already are
 * `unchanged` when they come a second time.
 */
export async function* addEach(
  client: RetrievalClient,
  collection: string,
  items: Iterable<components["schemas"]["ItemSent"]>,
): AsyncGenerator<Line> {
  let text = "";
  for (const item of items) text += `${JSON.stringify(item)}\n`;
  const answer = await client.POST("/v1/collections/{name}/items/bulk", {
    params: { path: { name: collection } },
    headers: { "Content-Type": STREAM },
    body: text as never,
    bodySerializer: (body: unknown) => body as string,
    parseAs: "stream",
  } as never);
  const { data, error, response } = answer as unknown as Answer<ReadableStream<Uint8Array>>;
  if (!response.ok || !data) throw new ProblemError(response.status, problemOf(error, response), retryAfter(response));
  yield* linesOf(data);
}

const STREAM = "application/x-ndjson";

/** With `Retry-After`; 409 where the same write, which was sent before, is still in progress. */
const WAITING = new Set([409, 429, 503]);

/** A write bears an idempotency key, so that it is done once however often it is sent. */
async function sendRepeated(request: Request, options: Options): Promise<Response> {
  const { retries = 2, timeoutSeconds = 30, maxWaitSeconds = 10, fetch: send = fetch } = options;
  const isStream = request.headers.get("Content-Type") === STREAM;
  if (isStream) return send(request);
  if (request.method !== "GET" && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
  for (let attempt = 0; ; attempt++) {
    const isLast = attempt >= retries;
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutSeconds * 1000)]);
    let wait = Math.min(2 ** attempt / 4, maxWaitSeconds);
    try {
      const response = await send(new Request(request.clone(), { signal }));
      const asked = retryAfter(response);
      if (isLast || !WAITING.has(response.status) || asked === undefined || asked > maxWaitSeconds) return response;
      await response.body?.cancel();
      wait = asked;
    } catch (error) {
      if (isLast || request.signal.aborted) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

function retryAfter(response: Response): number | undefined {
  const value = Number(response.headers.get("Retry-After") ?? NaN);
  return Number.isFinite(value) ? value : undefined;
}

/** A proxy in between answers errors in a form of its own. */
function problemOf(error: unknown, response: Response): Problem {
  if (typeof error === "object" && error !== null && "type" in error && "detail" in error) return error as Problem;
  const detail = typeof error === "string" && error ? error : `${response.status} ${response.statusText}`;
  return { type: "about:blank", title: response.statusText, status: response.status, detail };
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Line> {
  // Not every browser iterates over a stream.
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line) yield JSON.parse(line) as Line;
    }
    if (rest) yield JSON.parse(rest) as Line;
  } finally {
    await reader.cancel();
  }
}
