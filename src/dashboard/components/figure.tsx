/** How a figure differs from the window before. */
export interface Change {
  /** The change as text, for example "+12.5%" or "new". */
  shown: string;
  /** The meaning of the change. The page shows the meaning as a word and as a color. */
  meaning: "better" | "worse" | "neutral";
  /** The previous value and its period, as text. */
  sentence: string;
}

/** Renders one figure of a window, with a link to what stands behind it. */
export const Figure = ({
  name,
  value,
  detail,
  change,
  noChange,
  percentUsed,
  href,
}: {
  name: string;
  value: string;
  detail?: string | undefined;
  change?: Change | undefined;
  noChange?: string;
  /** The share of a limit that is used, which the figure shows as a bar. */
  percentUsed?: number;
  href: string;
}) => (
  <div class="panel figure">
    <h3>
      <a class="whole" href={href}>
        {name}
      </a>
    </h3>
    <p class="value">{value}</p>
    {percentUsed !== undefined && <Meter percentUsed={percentUsed} />}
    {detail && <p class="detail">{detail}</p>}
    {change && (
      <p class="change">
        <span class={change.meaning}>
          {change.shown}
          {change.meaning !== "neutral" && <span class="word"> {change.meaning}</span>}
        </span>{" "}
        <span class="quiet">{change.sentence}</span>
      </p>
    )}
    {noChange && <p class="change quiet">{noChange}</p>}
  </div>
);

/** Renders how much of a limit is used, as a bar. */
export const Meter = ({ percentUsed }: { percentUsed: number }) => (
  <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width={100} height={6} />
    <rect class={percentUsed >= 100 ? "full" : percentUsed >= 80 ? "near" : "used"} width={Math.min(100, percentUsed)} height={6} />
  </svg>
);
