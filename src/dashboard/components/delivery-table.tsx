import type { Attempt, Delivery } from "../../webhooks/deliveries/read-deliveries.ts";
import { Columns, NumberCell } from "./columns.tsx";
import { DeliveryState } from "./status.tsx";
import { Age, LogTime } from "./time.tsx";

interface DeliveryTableProps {
  deliveries: readonly Delivery[];
  /** The latest attempts, by the id of the delivery. */
  latest: ReadonlyMap<string, Attempt>;
  /** Whether the reader may open a delivery of this event type. */
  isReadable: (eventType: string) => boolean;
  now: number;
}

export const DeliveryTable = ({ deliveries, latest, isReadable, now }: DeliveryTableProps) => (
  <table class="cards one-line">
    <Columns
      of={[
        "Event",
        { name: "Status", width: 352 },
        { name: "Attempts", width: 96, isNumber: true },
        { name: "When (UTC)", width: 260, isZoned: true },
      ]}
    />
    <tbody>
      {deliveries.map((delivery) => (
        <tr class={isReadable(delivery.eventType) ? "row" : undefined}>
          <th scope="row" title={`${delivery.eventType} ${delivery.eventId}`}>
            {isReadable(delivery.eventType) ? (
              <a class="whole" href={`/deliveries/${delivery.id}`}>
                <code>{delivery.eventType}</code>
              </a>
            ) : (
              <code>{delivery.eventType}</code>
            )}
            {delivery.redeliveryOf && <span class="quiet"> again</span>} <code class="quiet">{delivery.eventId}</code>
          </th>
          <td>
            <DeliveryState delivery={delivery} latest={latest.get(delivery.id)} now={now} />
          </td>
          <NumberCell label="Attempts">{delivery.attemptsMade}</NumberCell>
          <td>
            <LogTime timeMs={delivery.createdAt} />{" "}
            <span class="quiet">
              <Age timeMs={delivery.createdAt} now={now} />
            </span>
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
