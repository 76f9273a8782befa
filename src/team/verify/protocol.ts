import { Failure } from "../../lib/errors/failure.ts";

/** The number of the protocol between this Worker and its clients (integrations/protocol.md). It changes when a client could misunderstand an answer. */
const protocol = 1;
const statedProtocol = /\(protocol (\d{1,4})\)/;

/** The header of each answer to a client. */
export const protocolHeader = { "X-Overview-Protocol": String(protocol) };

/** Throws `invalid_header` if a client says in its `User-Agent` that it speaks another protocol. */
export function requireProtocol(userAgent: string): void {
  const [, stated] = statedProtocol.exec(userAgent) ?? [];
  if (stated === undefined || Number(stated) === protocol) return;
  throw new Failure(
    "invalid_header",
    `This service speaks protocol ${protocol}, and the client speaks protocol ${stated}. Update the older one.`,
    {
      fieldErrors: [{ header: "User-Agent", detail: `Must say protocol ${protocol}.`, code: "invalid_value" }],
    },
  );
}
