import type { Plan, Progress } from "../../budget/plan.ts";
import { Columns } from "../components/columns.tsx";
import { integer } from "../format.ts";

const inWords = (limits: Plan["keyLimits"]) =>
  limits.length === 0 ? "none" : limits.map(({ per, limit }) => `${integer(limit)} per ${per}`).join(", ");

/** Shows all plans, and how many accounts have each of them. */
export const Plans = ({ plans }: { plans: readonly (Plan & Progress)[] }) => (
  <section class="panel" aria-labelledby="plans">
    <h2 id="plans">Plans</h2>
    {plans.length === 0 ? (
      <p class="quiet">
        There are no plans. Make one with <code>npm run operator -- plans make</code>.
      </p>
    ) : (
      <table>
        <Columns of={["Plan", "All keys together", "Each key", "Retention", { name: "Accounts", isNumber: true }]} />
        <tbody>
          {plans.map((plan) => (
            <tr>
              <th scope="row" class="name">
                <bdi>{plan.name}</bdi> <code class="quiet break">{plan.id}</code>
              </th>
              <td>{inWords(plan.accountLimits)}</td>
              <td>{inWords(plan.keyLimits)}</td>
              <td>{plan.retentionDays === null ? "default" : `${plan.retentionDays} days`}</td>
              <td class="number">
                {integer(plan.accounts)}
                {plan.waiting > 0 && `, ${integer(plan.waiting)} still with earlier terms`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    )}
  </section>
);
