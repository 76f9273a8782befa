import { raw } from "hono/html";
import { type JsonObject, type Operation, parametersOf } from "../../src/api/openapi/document.ts";
import { sendAsPlaceholder } from "../../src/docs/page.ts";
import { brand } from "../../src/lib/settings.ts";

/** A form with more optional parameters than this shows them on request, so that the response is near the button. */
const maxUnfolded = 4;

/**
 * The form that calls an operation from the operation's page. The form sends the request to the origin of the page. The form keeps the key
 * only in memory, and sends the key in a header. The form needs JavaScript. Without JavaScript, use the samples on the page. A reader
 * who is signed in can choose one of their keys instead.
 */
export const Console = ({
  document,
  method,
  path,
  operation,
}: {
  document: JsonObject;
  method: string;
  path: string;
  operation: Operation;
}) => {
  const parameters = parametersOf(document, operation);
  const isPublic = (operation.security as unknown[]).length === 0;
  const media = (operation.requestBody?.content as Record<string, JsonObject> | undefined)?.["application/json"];
  const isNeeded = ({ in: where, required }: JsonObject) => where === "path" || required === true;
  const optional = parameters.filter((parameter) => !isNeeded(parameter));
  const isLong = optional.length > maxUnfolded;
  const field = (parameter: JsonObject) => {
    const { name, in: where, required, schema, example } = parameter;
    return (
      <div class="field">
        <label for={`console-${where}-${name}`}>
          {String(name)} <span class="quiet">{String(where)}</span>
        </label>
        <input
          id={`console-${where}-${name}`}
          data-in={String(where)}
          data-name={String(name)}
          value={isNeeded(parameter) ? String(example ?? (schema as JsonObject).example ?? "") : ""}
          required={required === true}
        />
      </div>
    );
  };
  return (
    <section class="panel" aria-labelledby="try-it">
      <h2 id="try-it">Try it</h2>
      <p data-without-script>The console needs JavaScript. The commands above send the same request.</p>
      <form
        class="form"
        data-console
        data-method={method.toUpperCase()}
        data-path={path}
        data-variable={brand.keyVariable}
        autocomplete="off"
        hidden
      >
        {!isPublic && (
          <div class="field">
            <label for="console-key">API key</label>
            <input id="console-key" type="password" autocomplete="off" spellcheck={false} data-key aria-describedby="console-key-help" />
            <p class="help" id="console-key-help">
              The key is kept only in the memory of this page, and is sent only to this origin.
            </p>
          </div>
        )}
        {!isPublic && raw(sendAsPlaceholder)}
        {(isLong ? parameters.filter(isNeeded) : parameters).map(field)}
        {isLong && (
          <details>
            <summary>{optional.length} optional parameters</summary>
            {optional.map(field)}
          </details>
        )}
        {media && (
          <div class="field">
            <label for="console-body">Body</label>
            <textarea id="console-body" rows={8} spellcheck={false} data-body>
              {JSON.stringify(media.example ?? {}, null, 2)}
            </textarea>
          </div>
        )}
        <p class="field-error" role="alert" data-error hidden />
        <button class="main" type="submit">
          Send request
        </button>
      </form>
      <section class="code" aria-label="Response" tabindex={0} aria-live="polite" data-response-box hidden>
        <pre>
          <code data-answer />
        </pre>
      </section>
      <div class="sample" data-request-box hidden>
        <section class="code" aria-label="The same in curl" tabindex={0}>
          <pre>
            <code data-command />
          </pre>
        </section>
        <p class="buttons">
          <button type="button" data-copy="[data-command]" hidden>
            Copy
          </button>{" "}
          <span role="status" data-copied />
        </p>
      </div>
    </section>
  );
};
