import type { ListedToken } from "../../team/tokens/manage-tokens.ts";
import { Columns } from "../components/columns.tsx";
import { Empty } from "../components/notice.tsx";
import { Moment } from "../components/time.tsx";
import { counted } from "../format.ts";

/** Renders the service tokens, with their last use. A token that nobody uses any more should be revoked. */
export const Tokens = ({ tokens, now }: { tokens: readonly ListedToken[]; now: number }) => (
  <section class="panel" aria-labelledby="tokens">
    <h2 id="tokens">Service tokens</h2>
    {tokens.length === 0 ? (
      <Empty>
        No service tokens. Make one for each of your programs: <code>npm run operator -- tokens make</code>.
      </Empty>
    ) : (
      <section class="scroll" tabindex={0} aria-label="Service tokens, as a table">
        <table class="cards">
          <Columns of={["Name", "Id", "Scopes", "Accounts", "Expires", "Last used"]} />
          <tbody>
            {tokens.map((token) => (
              <tr>
                <th scope="row" class="name">
                  <bdi>{token.name}</bdi>
                </th>
                <td data-label="Id">
                  <code>{token.id}</code>
                </td>
                <td data-label="Scopes">{token.scopes.join(", ")}</td>
                <td data-label="Accounts">{token.accountIds === null ? "all" : counted(token.accountIds.length, "account")}</td>
                <td data-label="Expires">
                  {token.expiresAt === null ? "never" : token.expiresAt <= now ? "expired" : <Moment timeMs={token.expiresAt} />}
                </td>
                <td data-label="Last used">{token.lastUsedAt === null ? "never" : <Moment timeMs={token.lastUsedAt} />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    )}
  </section>
);
