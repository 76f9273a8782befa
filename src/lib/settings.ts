import { defaultSettings, type Settings } from "./default-settings.ts";

/** The name that pages show if the team has set none. */
export const productName = "Developer Overview";

declare const SETTINGS: Settings | undefined;

/** The settings of this build. The build of the Worker and `scripts/settings/use.ts` define `SETTINGS`. */
export const settings: Settings = typeof SETTINGS === "undefined" ? defaultSettings : SETTINGS;
export const { brand } = settings;

/** The name of the team's product, or that of this one. */
export const shownName: string = brand.name || productName;

/** How pages call the team behind the service, for example in "Ask Acme". */
export const teamName: string = brand.name || "the team behind this service";

/** Returns the name of a file that a customer downloads, with the name of the team. */
export const fileName = (name: string): string =>
  brand.name === ""
    ? name
    : `${brand.name
        .toLowerCase()
        .replaceAll(/[^a-z0-9]+/g, "-")
        .replaceAll(/^-|-$/g, "")}-${name}`.replace(/^-/, "");

/** Returns the link to the team's support for a request, or null if there is none. */
export function supportLink(requestId = ""): string | null {
  if (brand.support === "") return null;
  const address = brand.support.replaceAll("{request_id}", encodeURIComponent(requestId));
  return /^[^:/]+@/.test(address) ? `mailto:${address}` : address;
}
