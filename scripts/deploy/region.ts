import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { type Region, regions } from "../../src/db/region.ts";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import type { Deployment } from "./deployment.ts";
import { overridesOf } from "./environment.ts";
import { jsonIn, wrangler } from "./wrangler.ts";

// A database or a Durable Object never moves to another region, so the first deploy asks for the region and stores it in wrangler.toml.

const names: Record<Region, string> = {
  wnam: "the west of North America",
  enam: "the east of North America",
  weur: "the west of Europe",
  eeur: "the east of Europe",
  apac: "Asia",
  oc: "Oceania",
};

/** The cloud region near which Cloudflare places the Worker. D1 does not say where in its region it is, so each entry is a large data center there. */
export const placements: Record<Region, string> = {
  wnam: "aws:us-west-2",
  enam: "aws:us-east-1",
  weur: "aws:eu-west-2",
  eeur: "gcp:europe-central2",
  apac: "aws:ap-southeast-1",
  oc: "aws:ap-southeast-2",
};

const isRegion = (text: string): text is Region => regions.some((each) => each === text);

/** Returns the region with this name. Throws `CommandError` if there is none. */
export function regionOf(text: string): Region {
  if (isRegion(text)) return text;
  throw new CommandError("misuse", `There is no region "${text}". The regions are ${regions.join(", ")}.`);
}

/** Asks for the region on the terminal. Returns null if there is no terminal, or for an empty answer: Cloudflare then chooses a region near you. */
export async function askForRegion(): Promise<Region | null> {
  if (!process.stdin.isTTY || process.env.CI) return null;
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const choices = regions.map((region) => `  ${region}  ${names[region]}`).join("\n");
  try {
    const answer = await lines.question(
      `Where should the databases and Durable Objects be? They can never move.\n${choices}\nRegion (empty: near you): `,
    );
    return answer.trim() === "" ? null : regionOf(answer.trim());
  } finally {
    lines.close();
  }
}

const askDatabase = ["d1", "execute", "DB", "--remote", "--command", "SELECT 1", "--json"];

/** Asks D1 for the region of the main database. Returns null if D1 does not say it. */
export async function regionOfDatabase(deployment: Pick<Deployment, "config">): Promise<Region | null> {
  const { code, out } = await wrangler(askDatabase, deployment, { mayFail: true });
  if (code !== 0) return null;
  try {
    const [result] = jsonIn(out) as { meta?: { served_by_region?: string } }[];
    const region = (result?.meta?.served_by_region ?? "").toLowerCase();
    return isRegion(region) ? region : null;
  } catch {
    return null;
  }
}

/** Returns the text of a configuration with a region, in the variable `REGION`. Throws `CommandError` if the text has no empty `REGION`. */
export function withRegion(toml: string, region: Region, file = "wrangler.toml"): string {
  if (!toml.includes('\nREGION = ""')) throw new CommandError("refused", `${file} has no line REGION = "" in [vars].`);
  return toml.replace('\nREGION = ""', `\nREGION = "${region}"`);
}

/** Stores the region in the file that describes the environment. */
export function storeRegion(env: string, region: Region): void {
  const file = overridesOf(env);
  const path = join(root, file);
  writeFileSync(path, withRegion(readFileSync(path, "utf8"), region, file));
}
