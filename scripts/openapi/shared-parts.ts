import { STATUS_CODES } from "node:http";
import { type JsonObject, type Operation, operationsIn, pascalCase } from "../../src/api/openapi/document.ts";

interface Uses {
  part: JsonObject;
  /** The name that the part gets if it becomes a component. */
  name: string;
  places: { in: JsonObject | JsonObject[]; at: string | number }[];
}

/** Moves repeated parameters and problem responses to the components of the document. References replace the repeated parts. */
export function shareParts(document: JsonObject): void {
  const components = document.components as Record<string, JsonObject>;
  const responses = new Map<string, Uses>();
  const parameters = new Map<string, Uses>();
  const note = (of: Map<string, Uses>, part: JsonObject, name: string, place: Uses["places"][number]) => {
    const text = JSON.stringify(part);
    const uses = of.get(text) ?? { part, name, places: [] };
    uses.places.push(place);
    of.set(text, uses);
  };
  const operations = operationsIn(document);
  const common = commonCodes(operations.flatMap(({ operation }) => problemsOf(operation)));
  for (const { path, operation } of operations) {
    for (const [status, response] of problemsOf(operation))
      note(responses, response, responseName(status, response, common), { in: operation.responses, at: status });
    for (const [index, parameter] of (operation.parameters ?? []).entries())
      note(parameters, parameter, parameterName(path, parameter), { in: operation.parameters as JsonObject[], at: index });
  }
  components.responses = move(responses, "responses");
  components.parameters = move(parameters, "parameters");
}

const problemsOf = ({ responses }: Operation) =>
  Object.entries(responses as Record<string, JsonObject>).filter(([status]) => Number(status) >= 400);

function codesOf({ content }: JsonObject): string[] {
  const [media] = Object.values(content as Record<string, { examples?: object }>);
  return Object.keys(media?.examples ?? {});
}

/** For each status, returns the error codes that occur in every problem response with this status. */
function commonCodes(problems: [string, JsonObject][]): Map<string, string[]> {
  const common = new Map<string, string[]>();
  for (const [status, response] of problems) {
    const codes = codesOf(response);
    common.set(status, common.get(status)?.filter((code) => codes.includes(code)) ?? codes);
  }
  return common;
}

/**
 * Returns the component name of a problem response. Usually, the name is the reason phrase of the status, like "BadRequest". A response can
 * have codes that some other responses with its status do not have. The name then consists of these codes, like
 * "MalformedJsonOrInvalidHeader".
 */
function responseName(status: string, response: JsonObject, common: Map<string, string[]>): string {
  const further = codesOf(response).filter((code) => !common.get(status)?.includes(code));
  const reason = (STATUS_CODES[status] ?? "Problem").replaceAll(/[^A-Za-z]/g, "");
  // Responses of operations without a key have different headers, so these responses need a different name.
  const isPublic = !("RateLimit" in (response.headers as JsonObject));
  return `${isPublic ? "Public" : ""}${further.map(pascalCase).join("Or") || reason}`;
}

/**
 * Returns the component name of a parameter, like "limit" or "IdempotencyKey". For an id in a path, the name includes the resource, like
 * "idOfTask".
 */
function parameterName(path: string, { name, in: where }: JsonObject): string {
  if (where === "path") return `idOf${pascalCase(singular(path.split("/{")[0]?.split("/").at(-1) ?? ""))}`;
  return String(name).replaceAll(/[_-](\w)/g, (_, letter: string) => letter.toUpperCase());
}

const singular = (segment: string) => segment.replace(/ies$/, "y").replace(/s$/, "");

/**
 * Replaces each repeated part with references. Returns the replaced parts by name. Throws if two different parts have the same name. Names
 * contain no numbers, because after a change of the API, the same number could refer to another part.
 */
function move(all: Map<string, Uses>, kind: "responses" | "parameters"): JsonObject {
  const moved: JsonObject = {};
  for (const { part, name, places } of all.values()) {
    if (places.length < 2) continue;
    if (name in moved) throw new Error(`Two ${kind} of the document that differ are both called ${name}.`);
    moved[name] = part;
    for (const place of places) (place.in as Record<string | number, JsonObject>)[place.at] = { $ref: `#/components/${kind}/${name}` };
  }
  return moved;
}
