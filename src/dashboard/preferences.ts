import { getCookie, setCookie } from "hono/cookie";
import { maskKeys } from "../credentials/mask-keys.ts";
import type { PageContext } from "./context.ts";

// What a person has chosen of how pages look, remembered in cookies: so a page is right from its first byte, without script.

const themes = ["auto", "light", "dark"] as const;
const zones = ["utc", "local"] as const;
export type Theme = (typeof themes)[number];
export type Zone = (typeof zones)[number];

export interface Preferences {
  theme: Theme;
  /** In what zone times are written. Only the browser knows the local one: without script, times stay in UTC and say so. */
  zone: Zone;
}

const oneYear = 365 * 24 * 3600;

export const preferencesOf = (c: PageContext): Preferences => ({
  theme: themes.find((theme) => theme === getCookie(c, "theme")) ?? "auto",
  zone: zones.find((zone) => zone === getCookie(c, "zone")) ?? "utc",
});

export function remember(c: PageContext, name: "theme" | "zone" | "account", value: string): void {
  setCookie(c, name, value, { path: "/", maxAge: oneYear, sameSite: "Lax", httpOnly: true });
}

export const isTheme = (text: string): text is Theme => themes.some((theme) => theme === text);
export const isZone = (text: string): text is Zone => zones.some((zone) => zone === text);

/** A path of this origin that a form says to go back to; `/` where it says anything else. */
export const pathWithin = (text: string): string => (/^\/(?![/\\])[\x21-\x7e]*$/.test(text) ? maskKeys(text) : "/");
