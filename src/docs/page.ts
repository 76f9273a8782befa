/** A page of the documentation. The page is written in Markdown, served as Markdown, and converted to HTML. */
export interface DocPage {
  /** The path of the page, for example "/docs/guides/limits". */
  path: string;
  title: string;
  /** The kind of page that lists of pages show next to the title. */
  kind: "Guide" | "Operation" | "Error" | "Error of the team API" | "Event" | "Schema" | "Documentation";
  /** A summary of the page in one sentence. */
  summary: string;
  /** The Markdown source of the page. Links to other pages are paths without an origin. */
  markdown: string;
}

/** A placeholder for the service's origin. Prebuilt pages contain the placeholder because the service can have several origins. */
export const originPlaceholder = "https://origin.invalid";

/** A heading of a page. `at`: the position in the Markdown where the heading begins. `id`: the anchor of the heading in the HTML. */
export interface Heading {
  at: number;
  id: string;
  text: string;
}

/** A page with its prebuilt HTML. */
export interface BuiltPage extends DocPage {
  /** The HTML of the page, without its heading. */
  html: string;
  headings: readonly Heading[];
  /** The HTML that comes before the samples. Only pages of operations have an introduction and samples. */
  intro?: string;
  /** The HTML of the samples of an operation, one for each language. */
  samples?: string;
  /** The HTML of the try-it console. Only pages of operations have a console. */
  console?: string;
}

/** Stands in the console for the field with the reader's keys. */
export const sendAsPlaceholder = "<!--send-as-->";
