// One run of autocannon, told as JSON in the first argument, its result as JSON on standard output.
import autocannon from "autocannon";

const { url, keys, seconds } = JSON.parse(process.argv[2]);
const requests = keys.map((key) => ({ method: "GET", headers: { authorization: `Bearer ${key}`, "cf-connecting-ip": "198.51.100.7" } }));
const connections = 32;
let clients = 0;
const result = await autocannon({
  url,
  connections,
  duration: seconds,
  ...(requests.length > 0 && { requests, setupClient }),
});
process.stdout.write(
  JSON.stringify({
    requests: result.requests.total,
    seconds: (result.finish - result.start) / 1000,
    statuses: result.statusCodeStats,
    p50: result.latency.p50,
    p99: result.latency.p99,
  }),
);

/** Each connection begins with another key, so that the keys are asked evenly and not one by all at once. */
function setupClient(client) {
  const first = Math.floor((clients++ * requests.length) / connections) % requests.length;
  client.setRequests([...requests.slice(first), ...requests.slice(0, first)]);
}
