import { describe, expect, it } from "vitest";
import { buildIndex } from "../../scripts/docs/search.ts";
import type { DocPage } from "../../src/docs/page.ts";
import { queryWordsOf, SearchIndex } from "../../src/docs/search-index.ts";

const page: DocPage = {
  path: "/docs/guides/apples",
  title: "Apples",
  kind: "Guide",
  summary: "All about **fruit**.",
  markdown:
    "# Apples\n\n- Sorts: `Boskoop`\n\n```sh\ncurl ripe/red/orchard\n```\n\nSome are red.\nRead [about `pears`](/docs/guides/pears) next.\n\nThe last line is ripe.",
};
const pages = [page];
const { words, postings } = buildIndex(pages);
const lineFor = (query: string) => new SearchIndex(pages, words, postings).find(queryWordsOf(query))[0]?.line;

describe("A result of the documentation search", () => {
  it("shows the text from the first line with a searched word to the end of its paragraph, without Markdown markup", () => {
    expect(lineFor("red")).toBe("Some are red. Read about pears next.");
    expect(lineFor("pears")).toBe("Read about pears next.");
    expect(lineFor("ripe")).toBe("The last line is ripe.");
    expect(lineFor("boskoop next")).toBe("Read about pears next.");
  });

  it("shows the summary if no text line has a searched word", () => {
    expect(lineFor("apples")).toBe("All about fruit.");
    expect(lineFor("orchard")).toBe("All about fruit.");
    expect(lineFor("boskoop")).toBe("All about fruit.");
  });
});
