// This script adds to the page of the request log: the keys J and K move through the list.

const rows = () => [...document.querySelectorAll<HTMLAnchorElement>(".activity a.whole")];

function move(step: 1 | -1): void {
  const links = rows();
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  const next = links[Math.min(links.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).closest("input, textarea, select")) return;
  const key = event.key.toLowerCase();
  if (key === "j") move(1);
  else if (key === "k") move(-1);
});
