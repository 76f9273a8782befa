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

/** A page with its prebuilt HTML. */
export interface BuiltPage extends DocPage {
  /** The HTML of the page, without its heading. */
  html: string;
  /** The HTML of the try-it console. Only pages of operations have a console. */
  console?: string;
}

/** A placeholder in the console for the button that fills in the demo key. */
export const demoKeyPlaceholder = "<!--demo-key-->";
