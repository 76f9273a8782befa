import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { library } from "../../../src/docs/library.ts";
import { makeTenant } from "../support/client.ts";
import { makePerson } from "../support/people.ts";

// What customers read says nothing of how the service is built and run. That is for the team behind it.

const ofTeam = /\b(?:workers?|d1|operators?|repository|laptop|npm|npx|deploy\w*|wrangler|isolates?)\b/gi;

/** Returns the words of the team in a text. The value `operator` of the contract stands. */
const wordsIn = (text: string) => text.replaceAll(/`operator`|[:,] operator,|&quot;operator&quot;|"operator"/g, "").match(ofTeam) ?? [];

/** Only the team's API has these errors. Their pages exist because problems link to them. */
const errorsOfTeam = ["/docs/errors/invalid_token", "/docs/errors/too_many_attempts"];
const paths = library().pages.map(({ path }) => path);

it.each(paths.filter((path) => !errorsOfTeam.includes(path)))("The documentation page %s has no word of the team's", (path) => {
  const page = library().pages.find((each) => each.path === path);
  expect(wordsIn(`${page?.title} ${page?.markdown}`)).toEqual([]);
});

it("The OpenAPI document of customers has no word of the team's", async () => {
  const document = await (await env.ASSETS.fetch("https://overview.acme.dev/api/v1/openapi.json")).json();
  const found: string[] = [];
  JSON.stringify(document, (name, value: unknown) => {
    // `servers` is replaced when the document is served.
    if (name === "servers") return undefined;
    if (typeof value === "string" && wordsIn(value).length > 0 && value !== "operator") found.push(value);
    return value;
  });
  expect(found).toEqual([]);
});

it.each(["/", "/usage", "/limits", "/keys", "/keys/new", "/webhooks", "/webhooks/new", "/activity", "/settings", "/settings/audit"])(
  "The page %s has no word of the team's",
  async (path) => {
    const { accountId } = await makeTenant();
    const { get } = await makePerson(accountId);
    const { status, text } = await get(path);
    expect([status, wordsIn(text.replaceAll(/<[^>]*>/g, " "))]).toEqual([200, []]);
  },
);
