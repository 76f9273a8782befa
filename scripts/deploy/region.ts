import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { type Region, regions } from "../src/db/region.ts";
import { CommandError } from "./exit-codes.ts";
import { root } from "./root.ts";
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
const placements: Record<Region, string> = {
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
export async function regionOfDatabase(env: string): Promise<Region | null> {
  const { code, out } = await wrangler(askDatabase, { environment: env, mayFail: true });
  if (code !== 0) return null;
  try {
    const [result] = jsonIn(out) as { meta?: { served_by_region?: string } }[];
    const region = (result?.meta?.served_by_region ?? "").toLowerCase();
    return isRegion(region) ? region : null;
  } catch {
    return null;
  }
}

/**
 * Returns the text of wrangler.toml with a region, for one environment: in the variable `REGION`, and as the place of the Worker. An empty name of the
 * environment selects the top level.
 */
export function withRegion(toml: string, env: string, region: Region): string {
  const header = env === "" ? "\n[vars]\n" : `\n[env.${env}.vars]\n`;
  const start = toml.indexOf(header) + 1;
  if (start === 0) throw new CommandError("refused", `wrangler.toml has no section ${header.trim()}.`);
  const end = toml.indexOf("\n[", start);
  const [before, section, after] = [
    toml.slice(0, start),
    toml.slice(start, end === -1 ? undefined : end),
    end === -1 ? "" : toml.slice(end),
  ];
  if (!section.includes('\nREGION = ""')) throw new CommandError("refused", `wrangler.toml has no empty REGION in ${header.trim()}.`);
  const text = before + section.replace('\nREGION = ""', `\nREGION = "${region}"`) + after;
  const place = `region = "${placements[region]}"`;
  if (env === "") return text.replace('\n[placement]\nmode = "smart"', `\n[placement]\n${place}`);
  return text.includes(`\n[env.${env}.placement]\n`) ? text : `${text.trimEnd()}\n\n[env.${env}.placement]\n${place}\n`;
}

/** Stores the region in wrangler.toml. */
export function storeRegion(env: string, region: Region): void {
  const path = join(root, "wrangler.toml");
  writeFileSync(path, withRegion(readFileSync(path, "utf8"), env, region));
}
