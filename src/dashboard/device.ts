const browsers = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
] as const;

const systems = [
  ["Windows", "Windows"],
  ["Android", "Android"],
  ["iPhone", "an iPhone"],
  ["iPad", "an iPad"],
  ["Mac OS X", "a Mac"],
  ["Linux", "Linux"],
] as const;

/** "Chrome on Linux": the browser and the system that a User-Agent claims, the more special before those whose names it carries too. */
export function deviceOf(userAgent: string | null): string {
  const claimed = (names: readonly (readonly [mark: string, name: string])[]) => names.find(([mark]) => userAgent?.includes(mark))?.[1];
  const [browser, system] = [claimed(browsers), claimed(systems)];
  return [browser ?? "An unknown browser", system && `on ${system}`].filter(Boolean).join(" ");
}
