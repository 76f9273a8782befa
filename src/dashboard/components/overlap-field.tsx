import { maxOverlapSeconds } from "../../lib/inputs/rotation.ts";

const overlaps = [
  [0, "not at all"],
  [3600, "one hour"],
  [86_400, "one day"],
  [maxOverlapSeconds, "seven days"],
] as const;
const usual = 86_400;

/**
 * Renders the field that sets how long the old secret works after a rotation. `help` explains what the old secret does during that time.
 */
export const OverlapField = ({ help }: { help: string }) => (
  <div class="field">
    <label for="overlap_seconds">Keep the old secret for</label>
    <select id="overlap_seconds" name="overlap_seconds" aria-describedby="overlap-help">
      {overlaps.map(([seconds, label]) => (
        <option value={String(seconds)} selected={seconds === usual}>
          {label}
        </option>
      ))}
    </select>
    <p class="help" id="overlap-help">
      {help}
    </p>
  </div>
);
