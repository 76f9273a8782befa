// The settings of the team that are built into the Worker, from overview.toml. Everything that a customer can see of the team is here. Variables of the
// deployment (src/variables.d.ts) come from the same file.

/** A request of the team's own API, for samples and for the first call. `path` begins with a slash. */
export interface FirstRequest {
  method: string;
  path: string;
}

/** A file that pages load: its path below the origin of the Worker. */
type Path = string;

export interface Brand {
  /** The name of the team's product. Empty: none. */
  name: string;
  /** What the header says after the name. */
  area: string;
  logo: Path | null;
  logoDark: Path | null;
  icon: Path | null;
  font: Path | null;
  /** The style sheet with the colours, the radius and the font of the brand, or null. */
  style: Path | null;
  appUrl: string;
  appLabel: string;
  /** A URL or a mail address. It may contain `{request_id}`. Empty: none. */
  support: string;
  statusUrl: string;
  termsUrl: string;
  privacyUrl: string;
  docsUrl: string;
  /** Whether there is a page with the OpenAPI document of the team's own API. */
  hasReference: boolean;
  /** The origin of the team's API. Empty: this Worker. */
  apiUrl: string;
  firstRequest: FirstRequest | null;
  /** The prefixes of API keys, without the underscore after them. The first is that of new keys. */
  keyPrefixes: readonly [string, ...string[]];
  keyVariable: string;
  secretVariable: string;
  userAgent: string;
  poweredBy: boolean;
}

/** A scope of the team's own API. */
export interface TeamScope {
  name: string;
  description: string;
  default: boolean;
}

export interface Settings {
  brand: Brand;
  scopes: readonly TeamScope[];
  portal: { hosts: readonly string[]; mailUrl: string };
}

/** The settings without overview.toml. */
export const defaultSettings: Settings = {
  brand: {
    name: "",
    area: "API",
    logo: null,
    logoDark: null,
    icon: null,
    font: null,
    style: null,
    appUrl: "",
    appLabel: "",
    support: "",
    statusUrl: "",
    termsUrl: "",
    privacyUrl: "",
    docsUrl: "",
    hasReference: false,
    apiUrl: "",
    firstRequest: null,
    keyPrefixes: ["dvo"],
    keyVariable: "API_KEY",
    secretVariable: "WEBHOOK_SECRET",
    userAgent: "Webhooks/1",
    poweredBy: true,
  },
  scopes: [],
  portal: { hosts: [], mailUrl: "" },
};
