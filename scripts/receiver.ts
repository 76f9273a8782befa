import { styleText } from "node:util";
import { signatureErrorOf, startReceiver } from "./receiving.ts";

// `npm run receiver -- [PORT] [SECRET]` prints the webhook requests that it receives. If SECRET is given, it also verifies the signatures
// of the requests.

const usage = `Usage: npm run receiver -- [PORT] [SECRET]

  PORT    the port to listen on (default 4000)
  SECRET  the webhook's secret (whsec_...), to verify signatures

The path selects the response: /fail 500, /redirect 302, /gone 410, /busy 429, /flood a megabyte of text,
/hang no response, and any other path 204.`;

const [portText = "4000", secret] = process.argv.slice(2);
const port = Number(portText);
if (!/^\d+$/.test(portText) || port < 1 || port > 65_535 || (secret !== undefined && !secret.startsWith("whsec_"))) {
  console.error(usage);
  process.exit(1);
}

/** Escapes control characters and invisible characters. With them, a request could change the terminal or imitate the receiver's own lines. */
const escaped = (text: string): string =>
  text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);

const verdictOf = (error: string | null) =>
  error === null ? styleText("green", "signature valid") : styleText("red", `signature: ${error}`);

try {
  const { url } = await startReceiver(port, ({ path, headers, body, at }) => {
    const verdict = secret === undefined ? "" : `  ${verdictOf(signatureErrorOf({ headers, body }, secret))}`;
    console.log(`\n${new Date(at).toISOString()}  POST ${escaped(path)}  ${escaped(headers["webhook-id"] ?? "no webhook-id")}${verdict}`);
    console.log(escaped(body));
  });
  console.log(`Ready. Register ${url}/ as a webhook.${secret === undefined ? " To verify signatures, start again with its secret." : ""}`);
} catch (error) {
  const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
  console.error(isTaken ? `Port ${port} is taken. Choose another: npm run receiver -- ${port + 1}` : String(error));
  process.exitCode = 1;
}
