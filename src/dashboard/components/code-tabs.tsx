import { raw } from "hono/html";
import { Code } from "./secret.tsx";

/** A sample in one language. `html`: the code with highlighting. */
type Sample = readonly [language: string, code: string, html?: string];

/**
 * Renders the same sample in several languages, one at a time. The choice works without JavaScript. `name`: tells the samples of a page apart.
 */
export const CodeTabs = ({ name, samples }: { name: string; samples: readonly Sample[] }) => (
  <div class="code-tabs">
    <fieldset>
      <legend class="unseen">Language of the sample</legend>
      {samples.map(([language], index) => (
        <label>
          <input type="radio" name={`language-${name}`} value={index} checked={index === 0} />
          {language}
        </label>
      ))}
    </fieldset>
    {samples.map(([language, code, html], index) => (
      <div data-tab={index} data-language={language}>
        <Code label={`In ${language}`} id={`${name}-${index}`}>
          {html === undefined ? code : raw(html)}
        </Code>
      </div>
    ))}
  </div>
);
