import type { TestProject } from "vitest/node";
import { buildDocs } from "../../scripts/build-docs.ts";
import { copyProject, removeProject, run, withBuiltDocs } from "./project.ts";

/** A copy of the project with local data that contains one empty account. */
export interface MadeProject {
  folder: string;
  /** An API key of the account. The key has every scope. */
  key: string;
  /** The path and fragment of the setup link for the account's first owner. */
  setup: string;
}

declare module "vitest" {
  interface ProvidedContext {
    made: MadeProject;
  }
}

/** Creates local data once for all test files. Each Worker starts with a copy of this data. */
export default async function setup({ provide }: TestProject): Promise<() => void> {
  await buildDocs("", "overview.example.toml");
  const folder = withBuiltDocs(copyProject());
  const account = ["run", "--silent", "account", "--", "--name", "Acme", "--email", "acme@example.com"];
  const { code, out, err } = await run("npm", account, { cwd: folder });
  if (code !== 0) throw new Error(err);
  const [, key = "", link = ""] = out.trim().split("\n");
  provide("made", { folder, key, setup: link.slice(link.indexOf("/setup")) });
  return () => removeProject(folder);
}
