import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { type Jurisdiction, jurisdictions, type Region, regions } from "../../src/db/region.ts";
import { CommandError } from "../exit-codes.ts";
import { root } from "../root.ts";
import type { Deployment } from "./deployment.ts";
import { overridesOf } from "./environment.ts";
import { jsonIn, wrangler } from "./wrangler.ts";

// A database or a Durable Object never moves to another region or jurisdiction, so the first deploy asks for them and stores them in wrangler.toml.

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

const namesOfJurisdictions: Record<Jurisdiction, string> = {
  eu: "the European Union",
  us: "the United States",
  fedramp: "data centers that comply with FedRAMP",
};

const isJurisdiction = (text: string): text is Jurisdiction => jurisdictions.some((each) => each === text);

/** Returns the jurisdiction with this name. Throws `CommandError` if there is none. */
export function jurisdictionOf(text: string): Jurisdiction {
  if (isJurisdiction(text)) return text;
  throw new CommandError("misuse", `There is no jurisdiction "${text}". The jurisdictions are ${jurisdictions.join(", ")}.`);
}

/** Where the databases and Durable Objects of a deployment are. Null: nobody has chosen it, or there is no restriction. */
export interface Place {
  region: Region | null;
  jurisdiction: Jurisdiction | null;
}

/**
 * Asks on the terminal where the databases and Durable Objects should be. Within a jurisdiction, Cloudflare chooses the region. For an empty answer, there is
 * no jurisdiction, and Cloudflare chooses a region near you. Without a terminal, asks nothing.
 */
export async function askForPlace(): Promise<Place> {
  if (!process.stdin.isTTY || process.env.CI) return { region: null, jurisdiction: null };
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const ask = async (question: string, choices: Record<string, string>, prompt: string) => {
    const listed = Object.entries(choices).map(([name, what]) => `  ${name.padEnd(7)}  ${what}`);
    return (await lines.question(`${question}\n${listed.join("\n")}\n${prompt}: `)).trim();
  };
  try {
    const within = await ask(
      "Must the data stay in a jurisdiction? This can never change.",
      namesOfJurisdictions,
      "Jurisdiction (empty: no)",
    );
    if (within !== "") return { region: null, jurisdiction: jurisdictionOf(within) };
    const answer = await ask("Where should the databases and Durable Objects be? They can never move.", names, "Region (empty: near you)");
    return { region: answer === "" ? null : regionOf(answer), jurisdiction: null };
  } catch (error) {
    if ((error as Error).name === "AbortError") throw new CommandError("failed", "Nothing is changed. The question was not answered.");
    throw error;
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

/** Returns the text of a configuration with a value for a variable. Throws `CommandError` if the text has no such variable that is empty. */
export function withVariable(toml: string, name: "REGION" | "JURISDICTION", value: string, file = "wrangler.toml"): string {
  const empty = `\n${name} = ""`;
  if (!toml.includes(empty)) throw new CommandError("refused", `${file} has no line ${name} = "" in [vars].`);
  return toml.replace(empty, `\n${name} = "${value}"`);
}

/** Stores a variable in the file that describes the environment. */
export function storeVariable(env: string, name: "REGION" | "JURISDICTION", value: string): void {
  const file = overridesOf(env);
  const path = join(root, file);
  writeFileSync(path, withVariable(readFileSync(path, "utf8"), name, value, file));
}
