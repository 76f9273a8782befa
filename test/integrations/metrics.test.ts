import { afterAll, expect, it } from "vitest";
import { startFakeWorker } from "./clients/fake-worker.ts";
import { blocksIn, startService, stopAll, withNode } from "./services.ts";

// The sample of the README gives the counters of a client to the real OpenTelemetry.

afterAll(stopAll);

const service = `
import { createServer } from "node:http";
import { metrics } from "@opentelemetry/api";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { nodeHttp, Verifier } from "developer-overview-middleware";
import { observe } from "./metrics.mjs";

const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter });
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
const verifier = new Verifier({ url: process.env.OVERVIEW_URL, token: "svc_test" });
observe(verifier);
const verified = nodeHttp(verifier, (req, res) => res.end());
createServer(async (req, res) => {
  if (req.url !== "/metrics") return verified(req, res);
  await reader.forceFlush();
  const { metrics: all } = exporter.getMetrics().at(-1).scopeMetrics[0];
  const rows = all.flatMap(({ descriptor: { name }, dataPoints }) =>
    dataPoints.map(({ attributes, value }) => [[name.replace("developer_overview.client.", ""), ...Object.values(attributes)].join(" "), value]));
  res.end(JSON.stringify(Object.fromEntries(rows)));
}).listen(process.env.PORT, "127.0.0.1");
`;

it("The sample of the README counts decisions, denials and reports in OpenTelemetry", async () => {
  const worker = await startFakeWorker();
  const files = { "metrics.mjs": blocksIn("integrations/node/README.md")["metrics.mjs"] ?? "", "api.mjs": service };
  const { url } = await startService(files, withNode("api.mjs"), { OVERVIEW_URL: worker.url });
  // The request that waited for the start had no key.
  worker.denials.set("unknown", { status: 401, code: "invalid_key" });
  for (const key of ["one", "one", "unknown"]) await fetch(url, { headers: { Authorization: `Bearer ${key}` } });
  await fetch(url, { headers: { Authorization: "Bearer one", "X-API-Key": "two" } });
  const counted = await (await fetch(`${url}/metrics`)).json();
  expect(counted).toEqual({
    "decisions lease": 0,
    "decisions worker": 5,
    denied: 3,
    degraded: 0,
    "reports.dropped": 0,
    "reports.waiting": expect.any(Number),
  });
  await worker.stop();
});
