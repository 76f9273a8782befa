import { env } from "cloudflare:workers";

// A passkey as a device holds it, for the pages that ask for one: it makes a key, and signs by it what Chromium's would
// (https://www.w3.org/TR/webauthn-3/). What the browser adds around it can be made wrong here, as no browser would.

/** What the browser says of the page that asked. */
export interface ClientData {
  challenge?: string;
  origin?: string;
  crossOrigin?: boolean;
  topOrigin?: string;
}

export interface Authenticator {
  id: string;
  /** The response to the options of a registration, as a form sends it. */
  register(options: { challenge: string }, client?: ClientData): Promise<string>;
  /** The response to the options of an authentication. */
  sign(options: { challenge: string }, client?: ClientData): Promise<string>;
}

const party = new URL(env.PUBLIC_ORIGIN.split(",")[0] ?? "");
const base64url = (bytes: ArrayBuffer | Uint8Array) => Buffer.from(bytes as Uint8Array).toString("base64url");
const digest = async (text: string | Uint8Array) => Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(text as string)));

/** A head of CBOR (RFC 8949, 3). */
function head(major: number, value: number): Buffer {
  if (value < 24) return Buffer.from([(major << 5) | value]);
  if (value < 256) return Buffer.from([(major << 5) | 24, value]);
  return Buffer.from([(major << 5) | 25, value >> 8, value & 255]);
}

type Cbor = number | string | Uint8Array | Map<number | string, Cbor>;

function cbor(value: Cbor): Buffer {
  if (typeof value === "number") return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === "string") return Buffer.concat([head(3, value.length), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  return Buffer.concat([head(5, value.size), ...[...value].flatMap(([name, each]) => [cbor(name), cbor(each)])]);
}

/** An ECDSA signature as authenticators give it: DER, of the two numbers that Web Crypto sets side by side. */
function der(signature: Uint8Array): Buffer {
  const integer = (bytes: Uint8Array) => {
    const from = bytes.findIndex((byte) => byte !== 0);
    const short = bytes.subarray(from);
    const padded = (short[0] ?? 0) > 127 ? Buffer.from([0, ...short]) : Buffer.from(short);
    return Buffer.concat([Buffer.from([2, padded.length]), padded]);
  };
  const body = Buffer.concat([integer(signature.subarray(0, 32)), integer(signature.subarray(32))]);
  return Buffer.concat([Buffer.from([0x30, body.length]), body]);
}

/** A device of its own with one passkey. `id`: that of the credential. */
export async function makeAuthenticator(id = base64url(crypto.getRandomValues(new Uint8Array(16)))): Promise<Authenticator> {
  const pair = (await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"])) as CryptoKeyPair;
  const { x = "", y = "" } = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
  const credentialId = Buffer.from(id, "base64url");
  let count = 0;

  const clientDataOf = (type: string, challenge: string, client: ClientData) =>
    Buffer.from(JSON.stringify({ type, challenge, origin: party.origin, crossOrigin: false, ...client }));
  const authenticatorData = async (flags: number, rest: Uint8Array) => {
    count++;
    return Buffer.concat([await digest(party.hostname), Buffer.from([flags, 0, 0, 0, count]), rest]);
  };
  const response = (parts: object) => JSON.stringify({ id, rawId: id, type: "public-key", clientExtensionResults: {}, response: parts });

  return {
    id,
    async register({ challenge }, client = {}) {
      const numbers: [number, Cbor][] = [
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, Buffer.from(x, "base64url")],
        [-3, Buffer.from(y, "base64url")],
      ];
      const length = Buffer.from([credentialId.length >> 8, credentialId.length & 255]);
      const attested = Buffer.concat([Buffer.alloc(16), length, credentialId, cbor(new Map(numbers))]);
      // User present, user verified, attested credential data included.
      const authData = await authenticatorData(0x45, attested);
      const attestation = new Map<string, Cbor>([
        ["fmt", "none"],
        ["attStmt", new Map()],
        ["authData", authData],
      ]);
      return response({
        clientDataJSON: base64url(clientDataOf("webauthn.create", challenge, client)),
        attestationObject: base64url(cbor(attestation)),
        transports: ["internal"],
      });
    },
    async sign({ challenge }, client = {}) {
      const clientData = clientDataOf("webauthn.get", challenge, client);
      const authData = await authenticatorData(0x05, Buffer.alloc(0));
      const signed = Buffer.concat([authData, await digest(clientData)]);
      const signature = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, pair.privateKey, signed);
      return response({
        clientDataJSON: base64url(clientData),
        authenticatorData: base64url(authData),
        signature: base64url(der(new Uint8Array(signature))),
      });
    },
  };
}
