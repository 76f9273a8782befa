import { maxOverlapSeconds } from "../../lib/inputs/rotation.ts";
import { Options } from "./fields.tsx";

const overlaps = [
  ["0", "not at all"],
  ["3600", "one hour"],
  ["86400", "one day"],
  [String(maxOverlapSeconds), "seven days"],
] as const;

/**
 * Renders the field that sets how long the old secret works after a rotation. `help` explains what the old secret does during that time.
 */
export const OverlapField = ({ help }: { help: string }) => (
  <div class="field">
    <label for="overlap_seconds">Keep the old secret for</label>
    <select id="overlap_seconds" name="overlap_seconds" aria-describedby="overlap-help">
      <Options of={overlaps} chosen="86400" />
    </select>
    <p class="help" id="overlap-help">
      {help}
    </p>
  </div>
);
