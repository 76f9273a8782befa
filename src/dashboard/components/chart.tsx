import type { Child } from "hono/jsx";

/**
 * A chart that fills its space, with texts beside it that keep their size. There is `values` at its left, as high as it is, and
 * `names` below it, at shares of its width. `id`: of this picture on its page.
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
