import type { TestProject } from "vitest/node";
import { startReceiver } from "../scripts/receiving.ts";

/** One receiver for all tests inside workerd. Each test takes a path of its own. */
export default async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const receiver = await startReceiver(0);
  provide("receiver", receiver.url);
  return receiver.stop;
}

declare module "vitest" {
  interface ProvidedContext {
    receiver: string;
    /** Whether tests that have a short form are to be run at their full size. */
    isLong: boolean;
  }
}
