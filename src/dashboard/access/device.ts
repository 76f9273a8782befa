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

/**
 * Returns the browser and system that a User-Agent claims, for example "Chrome on Linux". Each list puts the most specific names first. For
 * example, the User-Agent of Edge also contains the names of Chrome and Safari.
 */
export function deviceOf(userAgent: string | null): string {
  const claimed = (names: readonly (readonly [mark: string, name: string])[]) => names.find(([mark]) => userAgent?.includes(mark))?.[1];
  const [browser, system] = [claimed(browsers), claimed(systems)];
  return [browser ?? "An unknown browser", system && `on ${system}`].filter(Boolean).join(" ");
}
