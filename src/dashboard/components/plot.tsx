import type { Child } from "hono/jsx";
import type { WindowName } from "../../usage/windows.ts";
import { barName, short } from "../format.ts";

const width = 960;
const height = 200;
const left = 60;
const bottom = 22;
const top = 8;
const plotWidth = width - left;
const plotHeight = height - bottom - top;
const mostNames = 6;

/** Where values and times lie in a plot. */
export interface Scale {
  /** The value at the top. */
  most: number;
  /** The width of one hour or day. */
  step: number;
  /** The left edge and the middle of the hour or day at an index. */
  x(index: number): number;
  middle(index: number): number;
  y(value: number): number;
}

/** A number at or above the highest value, a quarter of which is round: 1, 2 or 5 times a power of ten. */
function roundedUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value / 4)));
  return [1, 2, 5, 10].map((step) => 4 * step * power).find((most) => most >= value) ?? 40 * power;
}

/** The scale of a plot of so many hours or days, whose highest value is given. */
export function scaleOf(count: number, highest: number): Scale {
  const most = roundedUp(Math.max(highest, 1));
  const step = plotWidth / count;
  const x = (index: number) => left + index * step;
  return { most, step, x, middle: (index) => x(index) + step / 2, y: (value) => top + plotHeight - (value / most) * plotHeight };
}

/** Names at the edges stay inside of the picture. */
const anchorAt = (index: number, count: number) => (index === 0 ? "start" : index > count - 2 ? "end" : "middle");

/** A picture over time with its axes; `children` is what is drawn between them. `id`: of this picture on its page. */
export const Plot = ({
  id,
  title,
  description,
  scale,
  starts,
  window,
  children,
}: {
  id: string;
  title: string;
  description: string;
  scale: Scale;
  starts: readonly number[];
  window: WindowName;
  children: Child;
}) => (
  <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-labelledby={`${id}-title ${id}-desc`}>
    <title id={`${id}-title`}>{title}</title>
    <desc id={`${id}-desc`}>{description}</desc>
    {[0, 0.25, 0.5, 0.75, 1].map((share) => {
      const y = scale.y(scale.most * share);
      return (
        <>
          <line class={share === 0 ? "zero" : "grid"} x1={left} x2={width} y1={y} y2={y} />
          <text class="tick" x={left - 6} y={y + 4} text-anchor="end">
            {short(scale.most * share)}
          </text>
        </>
      );
    })}
    {children}
    {starts.map((start, index) =>
      index % Math.ceil(starts.length / mostNames) === 0 ? (
        <text class="tick" x={scale.middle(index)} y={height - 6} text-anchor={anchorAt(index, starts.length)}>
          {barName(start, window)}
        </text>
      ) : null,
    )}
  </svg>
);
