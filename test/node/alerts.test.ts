import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { root } from "./project.ts";

interface Rule {
  alert?: string;
  expr: string;
  labels?: { severity: string };
  annotations?: { summary: string; runbook: string };
}

const read = (file: string) => readFileSync(join(root, file), "utf8");
const { groups } = parse(read("docs/alerts.rules.yaml")) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);
/** The alerts that cron posts, as their names and severities are written in the source. */
const posted = [...read("src/monitoring/conditions.ts").matchAll(/\badd\(\s*(?:null|"[\w ]+"),\s*"(\w+)",\s*"(page|ticket)"/g)].map(
  ([, name, severity]) => [name, severity],
);

describe("The alerts for Prometheus", () => {
  it("name metrics, as the dashboard does, that /metrics has", () => {
    const metrics = [...read("src/metrics/metrics.ts").matchAll(/name: "(dvo_\w+)"/g)].map(([, name]) => name);
    const { panels } = JSON.parse(read("docs/grafana.json")) as { panels: { targets: Rule[] }[] };
    const shown = panels.flatMap(({ targets }) => targets);
    const named = [...rules, ...shown].flatMap(({ expr }) => expr.match(/\bdvo_[a-z_]+/g) ?? []);
    const known = (name: string) => metrics.includes(name.replace(/_(total|bucket|count|sum)$/, "")) || metrics.includes(name);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !known(name))).toEqual([]);
  });

  it("each name a runbook that exists, and a severity", () => {
    expect(alerts.length).toBeGreaterThan(15);
    for (const { alert, annotations, labels } of alerts)
      expect([alert, existsSync(join(root, annotations?.runbook ?? "")), ["page", "ticket"].includes(labels?.severity ?? "")]).toEqual([
        alert,
        true,
        true,
      ]);
  });

  it("include all alerts that cron posts, with the same severity", () => {
    const severities = new Map(alerts.map(({ alert, labels }) => [alert, labels?.severity]));
    expect(posted.length).toBeGreaterThan(12);
    // For Prometheus, failing requests are alerts about the error budget.
    for (const [name, severity] of posted.filter(([each]) => each !== "RequestsFail"))
      expect([name, severities.get(name)]).toEqual([name, severity]);
  });
});
