import { brand } from "../lib/settings.ts";

/** Returns the first call of a new key in three languages: the request that the team has chosen, or one of this service at `origin`. */
export function firstCallSamples(origin: string): [language: string, code: string][] {
  const { method, path } = brand.firstRequest ?? { method: "GET", path: "/api/v1/me" };
  const url = (brand.apiUrl || origin) + path;
  const { keyVariable: variable } = brand;
  const isGet = method === "GET";
  return [
    ["curl", `curl ${isGet ? "" : `-X ${method} `}"${url}" -H "Authorization: Bearer $${variable}"`],
    [
      "JavaScript",
      `const response = await fetch("${url}", {${isGet ? "" : `\n  method: "${method}",`}
  headers: { Authorization: \`Bearer \${process.env.${variable}}\` },
});
console.log(await response.json());`,
    ],
    [
      "Python",
      `import json, os, urllib.request

request = urllib.request.Request(
    "${url}",${isGet ? "" : `\n    method="${method}",`}
    headers={"Authorization": "Bearer " + os.environ["${variable}"]},
)
print(json.load(urllib.request.urlopen(request)))`,
    ],
  ];
}
