import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { conditions } from "../../src/monitoring/conditions.ts";
import { root } from "./project.ts";

interface Rule {
  alert?: string;
  expr: string;
  for?: string;
  labels?: { severity: string };
  annotations?: { summary: string; runbook: string };
}

const read = (file: string) => readFileSync(join(root, file), "utf8");
const { groups } = parse(read("docs/alerts.rules.yaml")) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);
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
      expect([
        alert,
        existsSync(join(root, (annotations?.runbook ?? "").replace(/#.*/, ""))),
        ["page", "ticket"].includes(labels?.severity ?? ""),
      ]).toEqual([alert, true, true]);
  });

  it("are the conditions of the service, with the same severity, time and runbook", () => {
    const rule = (name: string) => {
      const { for: time = "", labels, annotations } = alerts.find(({ alert }) => alert === name) ?? {};
      return {
        name,
        severity: labels?.severity,
        minutes: time.endsWith("h") ? 60 * Number.parseInt(time, 10) : Number.parseInt(time, 10),
        runbook: annotations?.runbook,
      };
    };
    // For Prometheus, failing requests are alerts about the error budget.
    for (const { name, severity, forMs, runbook } of conditions.filter((each) => each.name !== "RequestsFail"))
      expect(rule(name)).toEqual({ name, severity, minutes: forMs / 60_000, runbook: `docs/runbooks/${runbook}` });
  });
});
