import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { root } from "../root.ts";
import { Settings } from "./schema.ts";

// Makes overview.schema.json, with which an editor checks overview.toml and explains each member.

interface Node {
  properties?: Record<string, Node>;
  description?: string;
}

/** Returns the comment above each member of the example, by the path of the member. A member without one shares the comment of the member above it. */
function comments(): Map<string, string> {
  const found = new Map<string, string>();
  let [table, comment, isOpen] = ["", "", false];
  for (const line of readFileSync(join(root, "overview.example.toml"), "utf8").split("\n")) {
    const [, text] = /^# ?(.*)$/.exec(line) ?? [];
    const [, name] = /^\[(\w+)\]$/.exec(line) ?? [];
    const [, member] = /^(\w+) = /.exec(line) ?? [];
    if (text !== undefined) comment = isOpen ? `${comment} ${text}`.trim() : text;
    isOpen = text !== undefined;
    if (line === "") comment = "";
    if (name !== undefined) table = name;
    if (name !== undefined && comment !== "") found.set(name, comment);
    if (member !== undefined && comment !== "") found.set(`${table}.${member}`, comment);
  }
  return found;
}

/** Returns the JSON Schema of overview.toml. */
export function settingsSchema(): object {
  const schema = z.toJSONSchema(Settings, { io: "input" }) as Node;
  const texts = comments();
  for (const [table, node] of Object.entries(schema.properties ?? {})) {
    const own = texts.get(table);
    if (own !== undefined) node.description = own;
    for (const [member, each] of Object.entries(node.properties ?? {})) {
      const text = texts.get(`${table}.${member}`);
      if (text !== undefined) each.description = text;
    }
  }
  return schema;
}
