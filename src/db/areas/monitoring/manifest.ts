import type { Manifest } from "../../manifest.ts";
import * as tables from "./tables.ts";

export const manifest = { name: "monitoring", order: 132, tables } as const satisfies Manifest;
