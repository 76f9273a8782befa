import type { RateLimitUsage } from "../../admission/rate-limit-usage.ts";
import { percent } from "../../percent.ts";
import type { Usage } from "../../usage/read-usage.ts";
import { dash, daysOf, exactMilliseconds, integer, milliseconds, rate, signed, wholePercent } from "../format.ts";

interface Change {
  /** The change in one word: "+12.5%", "new". */
  shown: string;
  /** Better, worse or neither, in words: colour says it again. */
  meaning: "better" | "worse" | "neutral";
  /** What it is against. */
  sentence: string;
}

const Figure = ({
  name,
  value,
  detail,
  change,
  noChange,
}: {
  name: string;
  value: string;
  detail?: string;
  change?: Change;
  noChange?: string;
}) => (
  <div class="panel figure">
    <h3>{name}</h3>
    <p class="value">{value}</p>
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

interface Comparison {
  better: "higher" | "lower" | "neither";
  /** With how many decimals the change is shown; what is nothing at that is neither better nor worse. */
  decimals: number;
  unit: string;
  sentence: string;
}

function changeOf(value: number | null, { better, decimals, unit, sentence }: Comparison): Change {
  if (value === null) return { shown: "new", meaning: "neutral", sentence };
  const seen = Number(value.toFixed(decimals));
  const isBetter = better === "higher" ? seen > 0 : seen < 0;
  return {
    shown: `${signed(seen, decimals)}${unit}`,
    meaning: better === "neither" || seen === 0 ? "neutral" : isBetter ? "better" : "worse",
    sentence,
  };
}

const RateLimitFigure = ({ highest }: { highest: RateLimitUsage | null }) => {
  const name = "Rate Limit Usage";
  if (highest === null) return <Figure name={name} value={dash} noChange="It cannot be read just now. Load the page again." />;
  return (
    <Figure
      name={name}
      value={wholePercent(percent(highest.used, highest.limit))}
      detail={`${integer(highest.used)} / ${integer(highest.limit)} per hour`}
      noChange={highest.keyName === null ? "No key yet" : `Key “\u2068${highest.keyName}\u2069”, the nearest to its limit`}
    />
  );
};

/** The four figures of the last 30 days, each but the last with its change against the previous month. */
export const Figures = ({ usage, highest }: { usage: Usage; highest: RateLimitUsage | null }) => {
  const { totalRequests, successRate, avgResponseTimeMs, previous } = usage;
  const against = (former: string) =>
    former === dash || former === "0" ? `no requests ${daysOf(previous)}` : `against ${former}, ${daysOf(previous)}`;
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">API Usage – Last 30 Days</h2>
      <div class="figures">
        <Figure
          name="Total Requests"
          value={integer(totalRequests.value)}
          change={changeOf(totalRequests.changePercent, {
            better: "neither",
            decimals: 1,
            unit: "%",
            sentence: against(integer(totalRequests.previous)),
          })}
        />
        <Figure
          name="Success Rate"
          value={rate(successRate.value)}
          change={changeOf(successRate.changePoints, {
            better: "higher",
            decimals: 2,
            unit: " points",
            sentence: against(rate(successRate.previous)),
          })}
        />
        <Figure
          name="Avg Response Time"
          value={milliseconds(avgResponseTimeMs.value)}
          change={changeOf(avgResponseTimeMs.changeMs, {
            better: "lower",
            decimals: 1,
            unit: " ms",
            sentence: against(exactMilliseconds(avgResponseTimeMs.previous)),
          })}
        />
        <RateLimitFigure highest={highest} />
      </div>
    </section>
  );
};
