import { readFileSync } from "node:fs";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

// Usage: `node test/node/run-bundle.ts FILE PORT`. Runs the Worker until the process is killed. FILE is the path that `bundleOf` returned.

const [, , file = "", port] = process.argv;
await new Miniflare(convertV4MiniflareOptions({ ...JSON.parse(readFileSync(file, "utf8")), port: Number(port) })).ready;
