import { integer } from "../format.ts";
import { Chart } from "./chart.tsx";

const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const cell = { width: 34, height: 26 };
/** The heights of the highest and the lowest bar, in pixels. */
const [highest, lowest] = [22, 1.5];
const width = 24 * cell.width;
const height = 7 * cell.height;

const hourName = (hour: number) => `${String(hour).padStart(2, "0")}:00`;

/** Renders the number of requests in each hour of the week (UTC). Each day is a row of bars. */
export const WeekHours = ({ week }: { week: readonly (readonly number[])[] }) => {
  const cells = week.flatMap((hours, day) => hours.map((requests, hour) => ({ requests, day, hour })));
  const busiest = cells.reduce((max, each) => (each.requests > max.requests ? each : max), { requests: 0, day: 0, hour: 0 });
  if (busiest.requests === 0) return null;
  // One very busy hour leaves the other hours apart: its bar ends at twice the height of usual busy hours.
  const usual = cells.map(({ requests }) => requests).toSorted((a, b) => a - b)[Math.floor(0.9 * cells.length)] ?? 0;
  const scaled = Math.min(busiest.requests, Math.max(1, 2 * usual));
  const heightOf = (requests: number) => (requests === 0 ? 0 : Math.min(highest, Math.max(lowest, (highest * requests) / scaled)));
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
            <rect class="hit" x={hour * cell.width} y={day * cell.height} width={cell.width} height={cell.height} />
            <rect
              class="served"
              x={hour * cell.width + 2}
              y={((day + 1) * cell.height - heightOf(requests)).toFixed(1)}
              width={cell.width - 4}
              height={heightOf(requests).toFixed(1)}
            />
            <rect class="outline" x={hour * cell.width + 1} y={day * cell.height + 1} width={cell.width - 2} height={cell.height - 2} />
          </g>
        ))}
        {days.map((_, day) => (
          <line class="zero" x1={0} x2={width} y1={(day + 1) * cell.height} y2={(day + 1) * cell.height} />
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
