import type { Delivery } from "../../webhooks/read-deliveries.ts";
import { DeliveryState } from "./status.tsx";
import { Age, Ahead } from "./time.tsx";

export const DeliveryTable = ({ deliveries, now }: { deliveries: readonly Delivery[]; now: number }) => (
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">Event</th>
        <th scope="col">Status</th>
        <th scope="col" class="number">
          Attempts
        </th>
        <th scope="col">Next attempt</th>
        <th scope="col">When</th>
      </tr>
    </thead>
    <tbody>
      {deliveries.map((delivery) => (
        <tr class="row">
          <th scope="row">
            <a class="whole" href={`/deliveries/${delivery.id}`}>
              <code>{delivery.eventType}</code>
            </a>
            {delivery.redeliveryOf && <span class="quiet"> again</span>}
          </th>
          <td>
            <DeliveryState status={delivery.status} />
          </td>
          <td class="number" data-label="Attempts">
            {delivery.attemptsMade}
          </td>
          <td data-label="Next">
            {delivery.nextAttemptAt === null ? <span class="quiet">none</span> : <Ahead timeMs={delivery.nextAttemptAt} now={now} />}
          </td>
          <td>
            <Age timeMs={delivery.createdAt} now={now} />
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
