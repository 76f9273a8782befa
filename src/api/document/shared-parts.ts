import { STATUS_CODES } from "node:http";
import { type JsonObject, operationsIn } from "../../openapi-document.ts";

// What stands in many operations alike becomes a component, and is referred to.

interface Uses {
  part: JsonObject;
  places: { in: JsonObject | JsonObject[]; at: string | number }[];
}

/** Parameters and problems that occur more than once move to the components. */
export function shareParts(document: JsonObject): void {
  const components = document.components as Record<string, JsonObject>;
  const responses = new Map<string, Uses>();
  const parameters = new Map<string, Uses>();
  const note = (of: Map<string, Uses>, part: JsonObject, place: Uses["places"][number]) => {
    const text = JSON.stringify(part);
    const uses = of.get(text) ?? { part, places: [] };
    uses.places.push(place);
    of.set(text, uses);
  };
  for (const { operation } of operationsIn(document)) {
    for (const [status, response] of Object.entries(operation.responses))
      if (Number(status) >= 400) note(responses, response as JsonObject, { in: operation.responses, at: status });
    for (const [index, parameter] of (operation.parameters ?? []).entries())
      note(parameters, parameter, { in: operation.parameters as JsonObject[], at: index });
  }
  components.responses = move(responses, "responses", responseName);
  components.parameters = move(parameters, "parameters", ({ name }) => String(name).replaceAll(/[^A-Za-z0-9]/g, ""));
}

/** "Unauthorized": the reason of a problem's status. */
function responseName({ content }: JsonObject): string {
  const [media] = Object.values(content as Record<string, { examples: Record<string, { value: { status: number } }> }>);
  const [first] = Object.values(media?.examples ?? {});
  return (STATUS_CODES[first?.value.status ?? 0] ?? "Problem").replaceAll(/[^A-Za-z]/g, "");
}

function move(all: Map<string, Uses>, kind: "responses" | "parameters", nameOf: (part: JsonObject) => string): JsonObject {
  const moved: JsonObject = {};
  for (const { part, places } of all.values()) {
    if (places.length < 2) continue;
    const base = nameOf(part);
    let name = base;
    for (let other = 2; name in moved; other++) name = `${base}${other}`;
    moved[name] = part;
    for (const place of places) (place.in as Record<string | number, JsonObject>)[place.at] = { $ref: `#/components/${kind}/${name}` };
  }
  return moved;
}
