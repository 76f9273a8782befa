import { z } from "zod";
import { jurisdictions, regions } from "../../src/db/region.ts";

// The schema of overview.toml. Each member has its default here and a sentence in overview.example.toml.

const empty = z.literal("");
const url = z.url({ protocol: /^https?$/, error: "Must be a URL that begins with https://." });
const link = z.union([empty, url], { error: "Must be a URL that begins with https://." }).default("");
const origin = url.refine(
  (text) => URL.canParse(text) && new URL(text).origin === text.replace(/\/$/, ""),
  "Must be an origin without a path.",
);
const address = z.email({ error: "Must be a URL or a mail address." });
const text = (max: number) =>
  z
    .string()
    .trim()
    .max(max)
    .regex(/^\P{Cc}*$/u, "Must have no line breaks and no control characters.");
const environmentName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "Must be a name of an environment variable.");
/** One text, or a list of them. */
const list = z.preprocess(
  (given) =>
    typeof given === "string"
      ? given
          .split(",")
          .map((each) => each.trim())
          .filter((each) => each !== "")
      : given,
  z.array(z.string()),
);
const file = z.union([empty, z.string().regex(/^[\w./-]+$/, "Must be the path of a file.")]).default("");
/** Prefixes of the service's other secrets. */
const reserved = ["svc", "whsec", "dvop"];

const keyPrefixes = z
  .array(z.string().regex(/^[a-z0-9_]{2,16}$/, "Must have 2 to 16 characters of a-z, 0-9 and _."))
  .min(1, "Must have at least one prefix.")
  .max(8)
  .superRefine((prefixes, context) => {
    // Keys of two prefixes are never the same text, even if one prefix begins the other: after the prefix, a key has 16 letters and digits.
    const refuse = (index: number, message: string) => context.addIssue({ code: "custom", path: [index], message });
    for (const [index, prefix] of prefixes.entries()) {
      const taken = reserved.find((each) => `${prefix}_`.startsWith(`${each}_`));
      if (prefix.endsWith("_")) refuse(index, "Must not end with _, which follows each prefix.");
      if (taken !== undefined) refuse(index, `${taken}_ begins other secrets of this service.`);
      if (prefixes.indexOf(prefix) < index) refuse(index, "Must not be listed twice.");
    }
  });

const Brand = z.strictObject({
  name: text(60).default(""),
  area: text(40).default("API"),
  logo: file,
  logo_dark: file,
  icon: file,
  accent: z.union([empty, z.string().regex(/^#[0-9a-fA-F]{6}$/, 'Must be a colour like "#6d28d9".')]).default(""),
  radius: z
    .string()
    .regex(/^\d{1,2}px$/, 'Must be a length like "8px".')
    .default("8px"),
  font: file,
  app_url: link,
  app_label: text(40).default(""),
  support: z
    .union([empty, url, z.string().refine((given) => address.safeParse(given.replace(/\?.*$/, "")).success)], {
      error: "Must be a URL or a mail address.",
    })
    .default(""),
  status_url: link,
  terms_url: link,
  privacy_url: link,
  docs_url: link,
  openapi: file,
  api_url: z.union([empty, origin]).default(""),
  first_request: z
    .string()
    .regex(/^(?:GET|POST|PUT|PATCH|DELETE) \/[^\s"'\\`$<>]*$/, 'Must be a method and a path like "GET /v1/orders".')
    .default("GET /api/v1/me"),
  key_prefixes: keyPrefixes.default(["dvo"]),
  key_variable: environmentName.default("API_KEY"),
  secret_variable: environmentName.default("WEBHOOK_SECRET"),
  user_agent: z
    .string()
    .regex(/^[\x21-\x7e]{0,80}$/, "Must have no spaces.")
    .default(""),
  powered_by: z.boolean().default(true),
});

const Scope = z.strictObject({
  name: z.string().regex(/^[a-z][\w.-]*:[\w.-]+$/, "Must have the form resource:action."),
  description: text(200).default(""),
  default: z.boolean().default(false),
});

const portalHost = z.string().refine((given) => {
  if (!URL.canParse(given)) return false;
  const { origin: itself, protocol, hostname } = new URL(given);
  return itself === given && (protocol === "https:" || ["localhost", "127.0.0.1"].includes(hostname));
}, 'Must be an origin like "https://app.acme.dev". Only localhost may use http.');

export const Settings = z.strictObject({
  brand: Brand.prefault({}),
  api: z
    .strictObject({
      public_origin: list.default([]),
      sample_resources: z.boolean().default(true),
      key_headers: list.default(["Authorization", "X-API-Key"]),
      client_ip_header: z
        .string()
        .regex(/^[A-Za-z0-9-]+$/, "Must be the name of a header.")
        .default("X-Real-IP"),
    })
    .prefault({}),
  scopes: z.array(Scope).default([]),
  portal: z.strictObject({ hosts: z.array(portalHost).default([]), mail_url: link }).prefault({}),
  sign_in: z.strictObject({ access_team_domain: link, access_audience: z.string().default("") }).prefault({}),
  location: z
    .strictObject({
      region: z.enum(["", ...regions]).default(""),
      jurisdiction: z.enum(["", ...jurisdictions]).default(""),
    })
    .prefault({}),
  log: z
    .strictObject({
      days: z.int().min(2).max(90).default(31),
      databases: z.int().min(1).max(100).default(1),
      writers: z.int().min(1).max(32).default(4),
      sample: z.number().min(0).max(1).default(0.01),
    })
    .prefault({}),
  leases: z.strictObject({ ms: z.int().min(0).max(1000).default(1000) }).prefault({}),
  security: z
    .strictObject({
      contact: z.string().default(""),
      expires: z.iso.datetime().default("2027-11-01T00:00:00Z"),
    })
    .prefault({}),
});

export type Settings = z.infer<typeof Settings>;

/** Returns the variables of the Worker. */
export const variablesOf = ({ api, sign_in: signIn, location, log, leases, security }: Settings) => ({
  PUBLIC_ORIGIN: api.public_origin.join(", "),
  SAMPLE_RESOURCES: api.sample_resources ? "on" : "off",
  KEY_HEADERS: api.key_headers.join(", "),
  CLIENT_IP_HEADER: api.client_ip_header,
  ACCESS_TEAM_DOMAIN: signIn.access_team_domain,
  ACCESS_AUDIENCE: signIn.access_audience,
  REGION: location.region,
  JURISDICTION: location.jurisdiction,
  ACTIVITY_DAYS: String(log.days),
  ACTIVITY_WRITERS: String(log.writers),
  LOG_SAMPLE: String(log.sample),
  LEASE_MS: String(leases.ms),
  SECURITY_CONTACT: security.contact,
  SECURITY_EXPIRES: security.expires,
});

/** The names of the variables of the Worker, with their texts. */
export type Variables = ReturnType<typeof variablesOf>;
