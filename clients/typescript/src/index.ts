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
  /** The time limit of one attempt, in seconds. Default: 30. */
  timeoutSeconds?: number;
  /** The longest wait before the next attempt, in seconds. Default: 10. */
  maxWaitSeconds?: number;
  /** Sends one request; default: the global `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

/** The result of one line of a stream; the last one is the summary of all lines. */
export interface Line {
  /** The number of the line, from 1; the summary has none. */
  line?: number;
  item_id?: string;
  result?: "added" | "changed" | "unchanged";
  /** The reason why the line was refused; with the summary, the reason why the stream ended early. */
  error?: Problem;
  /** The number of lines with each result, further figures, and notes. */
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

/** There was no response: the service cannot be reached, or took too long; `cause` is the error of `fetch`. */
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
  return createClient<paths>({ baseUrl: options.baseUrl, headers, bodySerializer: serialized, fetch: send });
}

/** The data of a response. Throws `ProblemError` if the response is an error. */
export async function ok<Data>(answer: Promise<Answer<Data>>): Promise<Exclude<Data, undefined>> {
  const { data, error, response } = await answer;
  if (response.ok) return data as Exclude<Data, undefined>; // without exactOptionalPropertyTypes `data?` adds undefined
  throw new ProblemError(response.status, problemOf(error, response), retryAfter(response));
}

/**
 * Store any number of items, one per line; yields the result of each line, and at the end the summary.
 *
 * Throws `ProblemError` if the stream is refused. The stream is not repeated; a caller may repeat it, because items that
 * are stored already are `unchanged`.
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

/** A body as it is sent: texts and files unchanged, anything else as JSON. */
function serialized(body: unknown): unknown {
  return typeof body === "string" || body instanceof Blob || body instanceof Uint8Array ? body : JSON.stringify(body);
}

/** The statuses that ask to wait, by `Retry-After`; 409: an earlier attempt of the same write is in progress. */
const WAITING = new Set([409, 429, 503]);

/** Send the request, and repeat it if necessary; a write has an idempotency key, so that it is done once. */
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
    await waited(wait, request.signal);
  }
}

/** Wait for the seconds. Throws the signal's reason as soon as it is aborted. */
async function waited(seconds: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    // Not AbortSignal.timeout, whose timer does not keep a program of Node running.
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
  signal.throwIfAborted();
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
