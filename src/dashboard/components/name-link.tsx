/** Renders the name of something that a person has named, with a link to its page. `whole`: the whole row of a table leads there. */
export const NameLink = ({ href, name, whole = false }: { href: string; name: string | null; whole?: boolean }) => (
  <a class={whole ? "whole" : undefined} href={href}>
    <bdi>{name}</bdi>
  </a>
);
