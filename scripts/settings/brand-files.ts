import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { DOMParser, type Element, XMLSerializer } from "@xmldom/xmldom";
import { clampChroma, converter, formatHex, type Oklch, wcagContrast } from "culori";
import { CommandError } from "../exit-codes.ts";
import type { Settings } from "./schema.ts";

// Makes the files of a brand: the pictures, and a style sheet with its colours, its radius and its font.

export type Files = Readonly<Record<string, Uint8Array | string>>;
type Given = Settings["brand"];

const maxPicture = 32 * 1024;
const maxFont = 256 * 1024;
const minContrast = 4.5;
/** The grounds of src/browser/style.css on which a link stands. */
const grounds = { light: ["#ffffff", "#f6f7f9"], dark: ["#171b21", "#0f1216"] };
const defaultAccent = "#2446c8";

const refuse = (member: string, message: string) => new CommandError("misuse", `Nothing is done. brand.${member}: ${message}`);

const oklch = converter("oklch");
const passes = (color: Oklch | string, on: readonly string[]) => on.every((ground) => wcagContrast(color, ground) >= minContrast);
const inGamut = (color: Oklch) => formatHex(clampChroma(color, "oklch"));

/** Returns the nearest colour that can be read on all grounds. `step`: the change of the lightness, negative for darker colours. */
function readable(accent: string, on: readonly string[], from: number, step: number): string {
  const color = oklch(accent) as Oklch;
  for (let l = from; l > 0 && l < 1; l += step) {
    const hex = inGamut({ ...color, l });
    if (passes(hex, on)) return hex;
  }
  return step < 0 ? "#000000" : "#ffffff";
}

/** Returns the accent of both themes. Throws `CommandError` that names the nearest colour if the accent cannot be read on a light ground. */
export function accentsOf(accent: string): { light: string; dark: string } {
  if (!passes(accent, grounds.light)) {
    const { l } = oklch(accent) as Oklch;
    const nearest = readable(accent, grounds.light, l, -0.005);
    throw refuse(
      "accent",
      `${accent} has a contrast below ${minContrast}:1 on the pages. The nearest colour that can be read is ${nearest}.`,
    );
  }
  return { light: accent.toLowerCase(), dark: readable(accent, grounds.dark, 0.76, 0.01) };
}

const elements = new Set(
  "svg g path rect circle ellipse line polyline polygon defs linearGradient radialGradient stop clipPath mask title desc text tspan use symbol".split(
    " ",
  ),
);
const attributes = new Set(
  `xmlns viewBox width height x y x1 y1 x2 y2 cx cy r rx ry fx fy d points transform fill fill-rule fill-opacity stroke stroke-width stroke-linecap
  stroke-linejoin stroke-miterlimit stroke-dasharray stroke-dashoffset stroke-opacity opacity clip-path clip-rule mask offset stop-color stop-opacity
  gradientUnits gradientTransform spreadMethod clipPathUnits maskUnits id href preserveAspectRatio font-size font-weight font-family text-anchor
  dominant-baseline color display visibility`
    .trim()
    .split(/\s+/),
);
const isSafe = (name: string, value: string) =>
  name === "href" ? /^#[\w-]+$/.test(value) : name === "xmlns" ? true : !/url\(\s*['"]?(?!#)|[a-z]+:|\/\/|[\\@]/i.test(value);

/** Returns an SVG picture that has only shapes, gradients and text: no script, no style and no reference to another file. Throws if it is no SVG picture. */
export function safeSvg(text: string): string {
  if (/<!DOCTYPE|<!ENTITY|<\?xml-stylesheet/i.test(text)) throw new Error("Must have no document type.");
  const document = new DOMParser({
    onError: (level) => {
      if (level !== "warning") throw new Error("Must be an SVG picture.");
    },
  }).parseFromString(text, "image/svg+xml");
  const picture = document.documentElement;
  if (picture?.localName !== "svg" || picture.namespaceURI !== "http://www.w3.org/2000/svg") throw new Error("Must be an SVG picture.");
  const clean = (element: Element) => {
    for (const { name, value } of [...element.attributes]) {
      const plain = name === "xlink:href" ? "href" : name;
      element.removeAttribute(name);
      if (attributes.has(plain) && isSafe(plain, value)) element.setAttribute(plain, value);
    }
    for (const child of [...element.childNodes]) {
      const isText = child.nodeType === child.TEXT_NODE;
      const isElement = child.nodeType === child.ELEMENT_NODE && elements.has((child as Element).tagName);
      if (isElement) clean(child as Element);
      else if (!isText) element.removeChild(child);
    }
  };
  clean(picture);
  picture.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(picture);
}

const escaped = (text: string) => text.replaceAll(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Returns the picture of a brand without a logo: its initial on the accent. */
const initialOf = (name: string, accent: string) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${accent}"/><text x="16" y="22.5" text-anchor="middle" font-family="system-ui, sans-serif" font-size="18" font-weight="600" fill="#ffffff">${escaped(([...name][0] ?? "").toUpperCase())}</text></svg>`;

const hashed = (name: string, extension: string, bytes: Uint8Array | string) =>
  `/brand/${name}.${createHash("sha256").update(bytes).digest("hex").slice(0, 10)}${extension}`;

/** Returns the paths and the files of a brand. `folder`: the folder of its settings. Throws `CommandError` if a file cannot be used. */
export function brandFiles(brand: Given, folder: string) {
  const files: Record<string, Uint8Array | string> = {};
  const add = (name: string, extension: string, bytes: Uint8Array | string) => {
    const path = hashed(name, extension, bytes);
    files[path] = bytes;
    return path;
  };
  const read = (member: "logo" | "logo_dark" | "icon" | "font", max: number) => {
    try {
      const bytes = readFileSync(join(folder, brand[member]));
      if (bytes.length > max) throw new Error(`Must have at most ${max / 1024} KB.`);
      return bytes;
    } catch (error) {
      throw refuse(member, (error as Error).message);
    }
  };
  const picture = (member: "logo" | "logo_dark" | "icon") => {
    if (brand[member] === "") return null;
    const bytes = read(member, maxPicture);
    const isPng = bytes.subarray(0, 8).toString("latin1") === "\x89PNG\r\n\x1a\n";
    if (isPng) return add(member, ".png", bytes);
    try {
      return add(member, ".svg", safeSvg(bytes.toString("utf8")));
    } catch {
      throw refuse(member, `${brand[member]} must be a PNG picture, or an SVG picture without a document type.`);
    }
  };
  const font = () => {
    if (brand.font === "") return null;
    const bytes = read("font", maxFont);
    if (extname(brand.font) !== ".woff2" || bytes.subarray(0, 4).toString("latin1") !== "wOF2")
      throw refuse("font", "Must be a WOFF2 file.");
    return add("font", ".woff2", bytes);
  };
  const accents = accentsOf(brand.accent || defaultAccent);
  const initial = brand.name === "" ? null : initialOf(brand.name, accents.light);
  const logo = picture("logo") ?? (initial && add("logo", ".svg", initial));
  const icon = picture("icon") ?? (initial && add("icon", ".svg", initial));
  const fontPath = font();
  const rules = [
    fontPath && `@font-face{font-family:Brand;src:url(${fontPath}) format("woff2");font-display:swap;font-weight:100 900}`,
    brand.accent !== "" && `:root{--accent:light-dark(${accents.light},${accents.dark})}`,
    brand.radius !== "8px" && `:root{--radius:${brand.radius}}`,
    fontPath && "body{font-family:Brand,system-ui,sans-serif}",
  ].filter(Boolean);
  const style = rules.length === 0 ? null : add("brand", ".css", `${rules.join("\n")}\n`);
  return { logo, logoDark: picture("logo_dark"), icon, font: fontPath, style, files };
}
