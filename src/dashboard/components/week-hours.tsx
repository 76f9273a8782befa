import { integer } from "../format.ts";
import { Chart } from "./chart.tsx";

const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const cell = { width: 34, height: 20 };
const width = 24 * cell.width;
const height = 7 * cell.height;

const hourName = (hour: number) => `${String(hour).padStart(2, "0")}:00`;

/** Renders the number of requests in each hour of the week (UTC). A cell with more requests than others is more opaque. */
export const WeekHours = ({ week }: { week: readonly (readonly number[])[] }) => {
  const cells = week.flatMap((hours, day) => hours.map((requests, hour) => ({ requests, day, hour })));
  const busiest = cells.reduce((max, each) => (each.requests > max.requests ? each : max), { requests: 0, day: 0, hour: 0 });
  if (busiest.requests === 0) return null;
  // The shade of a cell is its rank: one very busy hour leaves the other hours apart.
  const ranks = [...new Set(cells.map(({ requests }) => requests))].toSorted((a, b) => a - b);
  const shadeOf = (requests: number) => (requests === 0 ? 0 : ranks.indexOf(requests) / (ranks.length - 1 || 1));
  const sentence = `Busiest: ${days[busiest.day]}s at ${hourName(busiest.hour)} UTC, with ${integer(busiest.requests)} requests.`;
  return (
    <figure class="chart" data-select="" data-columns={24}>
      <Chart
        id="week"
        title="Requests by weekday and hour (UTC)"
        description={sentence}
        width={width}
        height={height}
        values={days.map((day, index) => (
          <text class="tick" x="100%" y={(index + 0.7) * cell.height} text-anchor="end">
            {day.slice(0, 3)}
          </text>
        ))}
        names={[0, 6, 12, 18].map((hour) => (
          <text class="tick" x={`${(hour / 24) * 100}%`} y={14}>
            {hourName(hour)}
          </text>
        ))}
      >
        {cells.map(({ requests, day, hour }) => (
          <g data-from={hour} data-to={hour + 1}>
            <title>{`${days[day]} ${hourName(hour)}: ${integer(requests)} requests`}</title>
            <rect class="cell" x={hour * cell.width + 1} y={day * cell.height + 1} width={cell.width - 2} height={cell.height - 2} />
            <rect
              class="served"
              x={hour * cell.width + 1}
              y={day * cell.height + 1}
              width={cell.width - 2}
              height={cell.height - 2}
              fill-opacity={shadeOf(requests).toFixed(2)}
            />
            <rect class="outline" x={hour * cell.width + 1} y={day * cell.height + 1} width={cell.width - 2} height={cell.height - 2} />
          </g>
        ))}
      </Chart>
      <figcaption class="legend">
        {sentence} <span class="quiet" data-readout />
      </figcaption>
      <details>
        <summary>Show as a table</summary>
        <section class="scroll" tabindex={0} aria-label="Requests by weekday and hour, as a table">
          <table>
            <thead>
              <tr>
                <th scope="col">Hour (UTC)</th>
                {days.map((day) => (
                  <th scope="col" class="number">
                    {day.slice(0, 3)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {Array.from({ length: 24 }, (_, hour) => (
                <tr>
                  <th scope="row">{hourName(hour)}</th>
                  {week.map((hours) => (
                    <td class="number">{integer(hours[hour] ?? 0)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </details>
    </figure>
  );
};
