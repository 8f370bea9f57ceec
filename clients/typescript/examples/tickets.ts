/** Store three tickets, find one, and mark it as helpful. Usage: node dist/examples/tickets.js URL [KEY] */

import { connect, ok, ProblemError } from "../src/index.js";

const [baseUrl = "http://127.0.0.1:8000", key] = process.argv.slice(2);
const client = connect({ baseUrl, key });
const name = "typescript-tickets";

await ok(client.PUT("/v1/collections/{name}", { params: { path: { name } }, body: {} }));
await ok(
  client.POST("/v1/collections/{name}/items", {
    params: { path: { name } },
    body: {
      items: [
        { id: "T-1", title: "Database connection times out", text: "Every second request waits 30 s." },
        { id: "T-2", title: "Log files fill the disk", text: "Rotation is off since the upgrade." },
        { id: "T-3", title: "No database after a failover", text: "Clients keep the old address." },
      ],
    },
  }),
);

const found = await ok(
  client.POST("/v1/collections/{name}/search", {
    params: { path: { name } },
    body: { query: "connection times out", limit: 2, context: { actor: "kim" } },
  }),
);
for (const hit of found.hits) console.log(`${hit.rank}. ${hit.score.toFixed(2)}  ${hit.id}  ${hit.title}`);

const [best] = found.hits;
if (best && found.retrieval_id) {
  const events = { retrieval_id: found.retrieval_id, item_id: best.id, helpful: true, actor: "kim" };
  await ok(client.POST("/v1/feedback", { body: events }));
}

try {
  await ok(client.GET("/v1/collections/{name}", { params: { path: { name: "no-such-collection" } } }));
} catch (error) {
  if (!(error instanceof ProblemError)) throw error;
  console.log(error.type, error.status, error.message);
}
