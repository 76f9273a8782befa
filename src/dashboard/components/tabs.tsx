import type { Child } from "hono/jsx";

interface TabsProps {
  label: string;
  /** The pages of one resource, or the parts of a list. */
  kind?: "tabs" | "filters";
  tabs: readonly (readonly [name: string, path: string])[];
  /** The name of the current tab. */
  here: string | undefined;
  children?: Child;
}

/** Renders links to pages that belong together, and marks the present one. */
export const Tabs = ({ label, kind = "tabs", tabs, here, children }: TabsProps) => (
  <nav class={kind} aria-label={label}>
    {tabs.map(([name, path]) => (
      <a href={path} aria-current={name === here ? "page" : undefined}>
        {name}
      </a>
    ))}
    {children}
  </nav>
);
