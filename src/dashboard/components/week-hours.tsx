import { integer } from "../format.ts";

const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const cell = { width: 34, height: 20 };
const left = 44;
const top = 18;

const hourName = (hour: number) => `${String(hour).padStart(2, "0")}:00`;

/** When in the week requests come: the more, the fuller the cell. */
export const WeekHours = ({ week }: { week: readonly (readonly number[])[] }) => {
  const cells = week.flatMap((hours, day) => hours.map((requests, hour) => ({ requests, day, hour })));
  const busiest = cells.reduce((most, each) => (each.requests > most.requests ? each : most), { requests: 0, day: 0, hour: 0 });
  if (busiest.requests === 0) return null;
  const sentence = `Busiest: ${days[busiest.day]}s at ${hourName(busiest.hour)} UTC, with ${integer(busiest.requests)} requests.`;
  return (
    <figure class="chart">
      <svg viewBox={`0 0 ${left + 24 * cell.width} ${top + 7 * cell.height}`} role="img" aria-labelledby="week-title week-desc">
        <title id="week-title">Requests by weekday and hour (UTC)</title>
        <desc id="week-desc">{sentence}</desc>
        {[0, 6, 12, 18].map((hour) => (
          <text class="tick" x={left + hour * cell.width} y={12}>
            {hourName(hour)}
          </text>
        ))}
        {days.map((day, index) => (
          <text class="tick" x={left - 8} y={top + (index + 0.7) * cell.height} text-anchor="end">
            {day.slice(0, 3)}
          </text>
        ))}
        {cells.map(({ requests, day, hour }) => (
          <g>
            <title>{`${days[day]} ${hourName(hour)}: ${integer(requests)} requests`}</title>
            <rect
              class="cell"
              x={left + hour * cell.width + 1}
              y={top + day * cell.height + 1}
              width={cell.width - 2}
              height={cell.height - 2}
            />
            <rect
              class="served"
              x={left + hour * cell.width + 1}
              y={top + day * cell.height + 1}
              width={cell.width - 2}
              height={cell.height - 2}
              fill-opacity={(requests / busiest.requests).toFixed(2)}
            />
          </g>
        ))}
      </svg>
      <figcaption>{sentence}</figcaption>
    </figure>
  );
};
