import type { Child } from "hono/jsx";
import { hourMs } from "../../lib/time/clock.ts";
import { short } from "../format.ts";

const width = 900;
/** The height of a chart, in pixels. */
const height = 170;
/** The margin at the top and bottom of a chart, in pixels. Without the margin, the top and bottom labels would be cut off. */
const margin = 8;
const maxNames = 6;

/** Converts values and times to coordinates in a chart. */
export interface Scale {
  /** The value of the highest grid line. */
  max: number;
  /** The width of one hour or day, in units of the chart. */
  step: number;
  /** `x` returns the left edge of an hour or day. `middle` returns the center of an hour or day. */
  x(index: number): number;
  middle(index: number): number;
  y(value: number): number;
}

/** Rounds the highest value of a chart up, so that the grid line at each quarter has a round value. */
function roundedUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value / 4)));
  const steps = power === 1 ? [1, 2, 3, 4, 5, 6, 8, 10] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];
  return steps.map((step) => 4 * step * power).find((max) => max >= value) ?? 40 * power;
}

/**
 * Returns the highest value that a chart shows. If a tenth of the values or less are far above all others, the chart would show the others as a flat line, so
 * these values are cut off.
 */
export function usualHighest(values: readonly number[]): number {
  const sorted = values.filter((value) => value > 0).toSorted((a, b) => a - b);
  const highest = sorted.at(-1) ?? 0;
  const usual = sorted[Math.floor(0.9 * (sorted.length - 1))] ?? 0;
  return highest > 4 * usual ? 2 * usual : highest;
}

/** Returns the scale of a chart with `count` hours or days and the given highest value. */
export function scaleOf(count: number, highest: number): Scale {
  const max = roundedUp(Math.max(highest, 1));
  const step = width / count;
  const x = (index: number) => index * step;
  return {
    max,
    step,
    x,
    middle: (index) => x(index) + step / 2,
    y: (value) => height - margin - (value / max) * (height - 2 * margin),
  };
}

/** Renders the mark of a value that is above the chart. */
export const Above = ({ scale, index }: { scale: Scale; index: number }) => {
  const [x, y] = [scale.middle(index), scale.y(scale.max)];
  return <polygon class="over" points={`${x - 5},${y + 1} ${x + 5},${y + 1} ${x},${y - 7}`} />;
};

/** The grid lines of a chart, as shares of its highest one. */
const quarters = [0, 0.25, 0.5, 0.75, 1];

/** Returns whether a label below the chart has no room around the middle of its bar. It then ends with the chart. */
const isAtEnd = (index: number, count: number) => index > 0 && (index + 0.5) / count > 0.92;

/** The times between the labels of hours, in hours. With each of them, midnight has a label. */
const hoursApart = [1, 2, 3, 4, 6, 12, 24, 48];

/** Returns whether an hour or a day has a label below the chart. */
function isNamed(start: number, index: number, starts: readonly number[]): boolean {
  const apart = starts.length / maxNames;
  const isHourly = starts[1] !== undefined && starts[0] !== undefined && starts[1] - starts[0] === hourMs;
  if (!isHourly) return index % Math.ceil(apart) === 0;
  return start % ((hoursApart.find((hours) => hours >= apart) ?? 48) * hourMs) === 0;
}

/**
 * Renders a chart over time, with axes around `children`. It stretches to the available width, and its labels do not. `id` must be unique on the page.
 */
export const Axes = ({
  id,
  title,
  description,
  scale,
  starts,
  nameOf,
  textOf = short,
  children,
}: {
  id: string;
  title: string;
  description: string;
  scale: Scale;
  starts: readonly number[];
  /** Returns the name of the hour or day that starts at a time. */
  nameOf: (start: number) => string;
  /** Returns the text of a value on the axis. */
  textOf?: (value: number) => string;
  children: Child;
}) => (
  <div class="plot">
    <svg class="values" aria-hidden="true" height={height}>
      {quarters.map((share) => (
        <text class="tick" x="100%" y={scale.y(scale.max * share) + 4} text-anchor="end">
          {textOf(scale.max * share)}
        </text>
      ))}
    </svg>
    <svg
      class="area"
      viewBox={`0 0 ${width} ${height}`}
      height={height}
      preserveAspectRatio="none"
      role="img"
      aria-labelledby={`${id}-title ${id}-desc`}
    >
      <title id={`${id}-title`}>{title}</title>
      <desc id={`${id}-desc`}>{description}</desc>
      <pattern id="part" width={6} height={6} patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <line class="hatch" x1={0} x2={0} y1={0} y2={6} />
      </pattern>
      {quarters.map((share) => (
        <line class={share === 0 ? "zero" : "grid"} x1={0} x2={width} y1={scale.y(scale.max * share)} y2={scale.y(scale.max * share)} />
      ))}
      {children}
    </svg>
    <p class="readout" data-readout hidden />
    <svg class="names" aria-hidden="true" height={20}>
      {starts.map((start, index) =>
        isNamed(start, index, starts) ? (
          <text
            class="tick"
            x={isAtEnd(index, starts.length) ? "100%" : `${((scale.middle(index) / width) * 100).toFixed(1)}%`}
            y={14}
            text-anchor={isAtEnd(index, starts.length) ? "end" : "middle"}
          >
            {nameOf(start)}
          </text>
        ) : null,
      )}
    </svg>
  </div>
);
