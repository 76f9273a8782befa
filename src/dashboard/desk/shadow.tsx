import type { ShadowReport } from "../../monitoring/shadow.ts";
import { Columns, NumberCell } from "../components/columns.tsx";
import { integer } from "../format.ts";

const inWords = { allowed: "allowed", denied: "denied", not_compared: "did not compare" } as const;

/** Shows what shadow mode has found: whom the service would have denied, and where the team's own check decided in another way. */
export const Shadow = ({ report: { requests, denials, undecided, differences, findings } }: { report: ShadowReport }) => (
  <section class="panel" aria-labelledby="shadow">
    <h2 id="shadow">Shadow mode</h2>
    {requests === 0 ? (
      <p class="quiet">
        No client has reported findings. Middleware with the option <code>mode: "shadow"</code> does.
      </p>
    ) : (
      <p>
        {integer(requests)} requests. The service would have denied {integer(denials)}.
        {undecided > 0 && ` It did not decide in time about ${integer(undecided)}.`} Your own check decided in another way about{" "}
        <strong>{integer(differences)}</strong>.
      </p>
    )}
    {findings.length > 0 && (
      <section class="scroll" tabindex={0} aria-label="Findings of shadow mode, as a table">
        <table class="cards">
          <Columns of={["Service", "Your check", { name: "Requests", isNumber: true }, "Account", "Key", "Latest request"]} />
          <tbody>
            {findings.map((found) => (
              <tr>
                <th scope="row">
                  {found.code === "" ? "admitted" : <code>{found.code}</code>} {found.differs && <strong>differs</strong>}
                </th>
                <td data-label="Your check">{inWords[found.own]}</td>
                <NumberCell label="Requests">{integer(found.count)}</NumberCell>
                <td data-label="Account">{found.account === "" ? "unknown" : <code class="break">{found.account}</code>}</td>
                <td data-label="Key">
                  <code class="break">{found.key || (found.credential && `SHA-256 ${found.credential}...`) || "unknown"}</code>
                </td>
                <td data-label="Latest request">
                  <code class="break">{found.request}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    )}
  </section>
);
