import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { secretNames } from "../secrets.ts";
import type { Deployment } from "./deployment.ts";
import { WranglerError, wrangler } from "./wrangler.ts";

/** Runs a command that uploads a version, with the secrets that are new. Returns the id of the version. */
export async function upload(
  deployment: Deployment,
  command: (secretsFile: string | null) => string[],
  secrets: Record<string, string>,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "deploy-"));
  const [secretsFile, outputFile] = [join(folder, "secrets.json"), join(folder, "output.ndjson")];
  try {
    const uploaded = Object.fromEntries(Object.entries(secrets).filter(([name]) => secretNames.includes(name)));
    const hasSecrets = Object.keys(uploaded).length > 0;
    if (hasSecrets) writeFileSync(secretsFile, JSON.stringify(uploaded), { mode: 0o600 });
    await wrangler(command(hasSecrets ? secretsFile : null), deployment, { show: true, env: { WRANGLER_OUTPUT_FILE_PATH: outputFile } });
    const entries = readFileSync(outputFile, "utf8").trim().split("\n");
    const uploads = entries.map((line) => JSON.parse(line) as { version_id?: string }).filter(({ version_id }) => version_id);
    const version = uploads.at(-1)?.version_id;
    if (version === undefined) throw new WranglerError("wrangler did not report the id of the new version.");
    return version;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
