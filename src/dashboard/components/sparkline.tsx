import { integer } from "../format.ts";

/** Renders the number of requests on each of seven days as a very small bar chart. */
export const Sparkline = ({ counts }: { counts: readonly number[] }) => {
  const max = Math.max(...counts, 1);
  const total = counts.reduce((sum, count) => sum + count, 0);
  return (
    <svg class="spark" viewBox="0 0 70 20" width="70" height="20" role="img" aria-label={`${integer(total)} requests in seven days`}>
      {counts.map((count, index) => (
        <rect class="served" x={index * 10 + 1} width="8" y={19 - (count / max) * 18} height={(count / max) * 18 + 1} />
      ))}
    </svg>
  );
};
