import { getCookie, setCookie } from "hono/cookie";
import { maskKeys } from "../credentials/mask-keys.ts";
import { isInFrame } from "./access/session-cookie.ts";
import type { PageContext, Visitor } from "./context.ts";

// Cookies store the display preferences, so the server can apply these preferences to each page without JavaScript. The time zone of a member is also stored with
// the member, because it is that of a person, and the theme is that of a screen.

const themes = ["auto", "light", "dark"] as const;
const zones = ["utc", "local"] as const;
export type Theme = (typeof themes)[number];
export type Zone = (typeof zones)[number];

export interface Preferences {
  theme: Theme;
  /**
   * The time zone in which pages show times. Only the browser knows the local time zone. Without JavaScript, pages therefore show times in
   * UTC and label them as UTC.
   */
  zone: Zone;
}

const oneYear = 365 * 24 * 3600;

export const preferencesOf = (c: PageContext): Preferences => ({
  theme: themes.find((theme) => theme === getCookie(c, "theme")) ?? "auto",
  zone: (c.get("visitor") as Visitor | undefined)?.signedIn?.member.zone ?? zones.find((zone) => zone === getCookie(c, "zone")) ?? "utc",
});

export function remember(c: PageContext, name: "theme" | "zone" | "account", value: string): void {
  const place = isInFrame(c) ? ({ sameSite: "None", secure: true, partitioned: true } as const) : ({ sameSite: "Lax" } as const);
  setCookie(c, name, value, { path: "/", maxAge: oneYear, httpOnly: true, ...place });
}

export const isTheme = (text: string): text is Theme => themes.some((theme) => theme === text);
export const isZone = (text: string): text is Zone => zones.some((zone) => zone === text);

/** Returns `text` with API keys masked if `text` is a path of this origin. Otherwise, returns `/`. */
export const pathWithin = (text: string): string => (/^\/(?![/\\])[\x21-\x7e]*$/.test(text) ? maskKeys(text) : "/");
