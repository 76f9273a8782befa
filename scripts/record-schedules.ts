import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { schedule } from "../test/node/leases/schedules.ts";
import { root } from "./root.ts";

// `node scripts/record-schedules.ts` writes `integrations/schedules.txt`: what a process that holds leases decides, for the clients in other languages.

const lines: string[] = [];
for (let seed = 0; seed < 1000; seed++) lines.push(JSON.stringify(await schedule(seed)));
writeFileSync(join(root, "integrations/schedules.txt"), `${lines.join("\n")}\n`);
