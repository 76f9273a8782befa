import { readFileSync } from "node:fs";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

// `node test/node/run-bundle.ts FILE PORT` runs the Worker from an options file of `bundleOf`, until the process is killed.

const [, , file = "", port] = process.argv;
await new Miniflare(convertV4MiniflareOptions({ ...JSON.parse(readFileSync(file, "utf8")), port: Number(port) })).ready;
