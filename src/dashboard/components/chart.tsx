import type { Child } from "hono/jsx";

/**
 * Renders a chart that stretches to the available width. The labels do not stretch. `values` are the labels on the left, and `names` are
 * the labels below the chart. `id` must be unique on the page.
 */
export const Chart = ({
  id,
  title,
  description,
  width,
  height,
  values,
  names,
  children,
}: {
  id: string;
  title: string;
  description: string;
  width: number;
  height: number;
  values: Child;
  names: Child;
  children: Child;
}) => (
  <div class="plot">
    <svg class="values" aria-hidden="true" height={height}>
      {values}
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
      {children}
    </svg>
    <svg class="names" aria-hidden="true" height={20}>
      {names}
    </svg>
  </div>
);
