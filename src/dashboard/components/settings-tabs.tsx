import { visitorMay } from "../access/permissions.tsx";
import type { PageContext } from "../context.ts";
import { Tabs } from "./tabs.tsx";

/** Renders links to the four subjects of the settings. Security is left out if nobody signs in. */
export const SettingsTabs = ({ c, here }: { c: PageContext; here: "Members" | "Audit" }) => (
  <Tabs
    label="Settings"
    here={here}
    tabs={[
      ["Members", "/settings"],
      ...(c.get("visitor").signedIn ? ([["Security", "/settings#sessions"]] as const) : []),
      ["Account", "/settings#account-facts"],
      ...(visitorMay(c, "audit") ? ([["Audit", "/settings/audit"]] as const) : []),
    ]}
  />
);
