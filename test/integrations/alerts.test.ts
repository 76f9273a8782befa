import { join } from "node:path";
import { expect, it } from "vitest";
import { root, run } from "../node/project.ts";

// `promtool` is in Debian's package prometheus.

const promtool = (...args: string[]) => run("promtool", args, { cwd: join(root, "docs") });

it("Prometheus accepts the rules, and the alerts fire when they should", async () => {
  for (const args of [
    ["check", "rules", "alerts.rules.yaml"],
    ["test", "rules", "alerts.test.yaml"],
  ]) {
    const { code, out, err } = await promtool(...args);
    expect([args[0], code, code === 0 ? "" : out + err]).toEqual([args[0], 0, ""]);
  }
});
