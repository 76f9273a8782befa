import { type JsonObject, operationsIn } from "../../src/api/openapi/document.ts";
import type { DocPage } from "../../src/docs/page.ts";
import { operationPath } from "./markdown.ts";
import { quickStart, tagsOf } from "./pages/index.ts";

/** Renders the start page of the documentation: the guides as cards, and the reference by resource. */
export const Home = ({ document, pages }: { document: JsonObject; pages: readonly DocPage[] }) => {
  const of = (kind: DocPage["kind"]) => pages.filter((page) => page.kind === kind);
  const operations = operationsIn(document);
  const first = pages.find(({ path }) => path === quickStart);
  return (
    <>
      {first && (
        <p>
          New here? Start with the <a href={first.path}>{first.title.toLowerCase()}</a>.
        </p>
      )}
      <h2 id="guides">Guides</h2>
      <ul class="doc-cards">
        {of("Guide").map(({ title, path, summary }) => (
          <li>
            <a href={path}>{title}</a>
            <p>{summary}</p>
          </li>
        ))}
      </ul>
      <h2 id="reference">Reference</h2>
      <p>
        Every operation with its parameters, responses, errors and samples. For tools, there is{" "}
        <a href="/api/v1/openapi.json">OpenAPI as JSON</a> and <a href="/api/v1/openapi.yaml">as YAML</a>.
      </p>
      <ul class="doc-cards">
        {tagsOf(document).map((tag) => (
          <li>
            <h3>{tag}</h3>
            <ul>
              {operations
                .filter(({ operation }) => (operation.tags as string[])[0] === tag)
                .map(({ method, operation }) => (
                  <li>
                    <code class="method">{method.toUpperCase()}</code>{" "}
                    <a href={operationPath(operation.operationId)}>{String(operation.summary)}</a>
                  </li>
                ))}
            </ul>
          </li>
        ))}
      </ul>
      <Named id="events" name="Events" pages={of("Event")} />
      <Named id="errors" name="Errors" pages={of("Error")} />
      <Named id="schemas" name="Schemas" pages={of("Schema")} />
      <h2 id="for-machines">For machines</h2>
      <p>
        Each of these pages is also available as Markdown. Append <code>.md</code> to the path, or send <code>Accept: text/markdown</code>.{" "}
        <a href="/llms.txt">llms.txt</a> lists all pages, and the <a href="/.well-known/api-catalog">API catalog</a> lists the
        machine-readable documents.
      </p>
    </>
  );
};

/** Renders links to pages whose names say enough. */
const Named = ({ id, name, pages }: { id: string; name: string; pages: readonly DocPage[] }) => (
  <>
    <h2 id={id}>{name}</h2>
    <ul class="doc-names">
      {pages.map(({ title, path }) => (
        <li>
          <a href={path}>{title}</a>
        </li>
      ))}
    </ul>
  </>
);
