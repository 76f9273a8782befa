import { buildSettings, readSettings } from "./load.ts";

// A command that runs code of the Worker imports this module first, so this code has the settings of the team.

export const given = readSettings(process.env.OVERVIEW_ENVIRONMENT || undefined);
const { settings } = buildSettings(given);
Object.assign(globalThis, { SETTINGS: settings });
process.env.SAMPLE_RESOURCES ??= given.api.sample_resources ? "on" : "off";
