import type { Child } from "hono/jsx";

/** Renders a name and its value in a `dl`. */
export const Fact = ({ name, class: kind, children }: { name: string; class?: string; children?: Child }) => (
  <div>
    <dt>{name}</dt>
    <dd class={kind}>{children}</dd>
  </div>
);
