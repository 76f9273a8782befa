/** One page of the documentation. It is written as Markdown, which is served as it is and made into HTML. */
export interface DocPage {
  /** "/docs/guides/limits". */
  path: string;
  title: string;
  /** What kind of page it is, as a reader of a list of them is told. */
  kind: "Guide" | "Operation" | "Error" | "Event" | "Schema" | "Documentation";
  /** What it is about, in a sentence. */
  summary: string;
  /** The page. Links to other pages are paths of this origin. */
  markdown: string;
}

/** Stands for the origin of the service in what is made once for all of its origins. */
export const originPlaceholder = "https://origin.invalid";

/** A page as it is served. */
export interface BuiltPage extends DocPage {
  /** The page in HTML, without its heading. */
  html: string;
  /** Of an operation: the console to try it. */
  console?: string;
}

/** Stands in a console for the button that fills in the demo key. */
export const demoKeyPlaceholder = "<!--demo-key-->";
