import { may } from "../../identity/roles.ts";
import { roleOf, type Visitor } from "../context.ts";
import { Tabs } from "./tabs.tsx";

/** Returns the subjects of the settings. Security is left out if nobody signs in. */
export function settingsParts(visitor: Visitor): (readonly [name: string, path: string])[] {
  return [
    ["Members", "/settings"],
    ...(visitor.signedIn ? ([["Security", "/settings#sessions"]] as const) : []),
    ["Account", "/settings#account-facts"],
    ...(may(roleOf(visitor), "audit") ? ([["Audit", "/settings/audit"]] as const) : []),
  ];
}

/** Renders links to the subjects of the settings. */
export const SettingsTabs = ({ visitor, here }: { visitor: Visitor; here: "Members" | "Audit" }) => (
  <Tabs label="Settings" here={here} tabs={settingsParts(visitor)} />
);
