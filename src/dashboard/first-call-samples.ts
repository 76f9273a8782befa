import { html } from "hono/html";
import { brand } from "../lib/settings.ts";

type Sample = readonly [language: string, code: string, html?: string];

/**
 * Returns the first call of a new key in three languages: the request that the team has chosen, or one of this service at `origin`. `secretKey`: the key, if the
 * page shows it. Without it, the samples read the team's variable.
 */
export function firstCallSamples(origin: string, secretKey?: string): Sample[] {
  const { method, path } = brand.firstRequest ?? { method: "GET", path: "/api/v1/me" };
  const url = (brand.apiUrl || origin) + path;
  const { keyVariable: variable } = brand;
  const isGet = method === "GET";
  const [inShell, inScript, inPython] = secretKey
    ? [secretKey, `"Bearer ${secretKey}"`, `"Bearer ${secretKey}"`]
    : [`$${variable}`, `\`Bearer \${process.env.${variable}}\``, `"Bearer " + os.environ["${variable}"]`];
  const samples: Sample[] = [
    ["curl", `curl ${isGet ? "" : `-X ${method} `}"${url}" -H "Authorization: Bearer ${inShell}"`],
    [
      "JavaScript",
      `const response = await fetch("${url}", {${isGet ? "" : `\n  method: "${method}",`}
  headers: { Authorization: ${inScript} },
});
console.log(await response.json());`,
    ],
    [
      "Python",
      `import json, ${secretKey ? "" : "os, "}urllib.request

request = urllib.request.Request(
    "${url}",${isGet ? "" : `\n    method="${method}",`}
    headers={"Authorization": ${inPython}},
)
print(json.load(urllib.request.urlopen(request)))`,
    ],
  ];
  return secretKey ? samples.map(([language, code]) => [language, code, masked(code, secretKey)]) : samples;
}

/** Returns code as HTML, with the key masked like the key of the page. */
const masked = (code: string, secretKey: string): string =>
  code
    .split(secretKey)
    .map((part) => String(html`${part}`))
    .join(`<span class="masked">${secretKey}</span>`);
