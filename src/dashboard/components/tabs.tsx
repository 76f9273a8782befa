/** Renders the pages of one resource as tabs. Each tab is a page of its own. `here` is the name of the current tab. */
export const Tabs = ({ label, tabs, here }: { label: string; tabs: readonly (readonly [name: string, path: string])[]; here: string }) => (
  <nav class="tabs" aria-label={label}>
    {tabs.map(([name, path]) => (
      <a href={path} aria-current={name === here ? "page" : undefined}>
        {name}
      </a>
    ))}
  </nav>
);
