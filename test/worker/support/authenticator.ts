import { env } from "cloudflare:workers";

// A passkey device that is simulated in software. The device creates a key pair and signs the same data that Chromium signs
// (https://www.w3.org/TR/webauthn-3/). Tests can also make the device sign client data that no browser sends.

/** The WebAuthn client data: a browser's description of the page that uses the passkey. */
export interface ClientData {
  challenge?: string;
  origin?: string;
  crossOrigin?: boolean;
  topOrigin?: string;
}

export interface Authenticator {
  /** The credential id of the passkey. */
  id: string;
  /** Returns the device's response to registration options, as the JSON that a page sends. */
  register(options: { challenge: string }, client?: ClientData): Promise<string>;
  /** Returns the device's response to authentication options, as the JSON that a page sends. */
  sign(options: { challenge: string }, client?: ClientData): Promise<string>;
}

const relyingParty = new URL(env.PUBLIC_ORIGIN.split(",")[0] ?? "");
const base64url = (bytes: ArrayBuffer | Uint8Array) => Buffer.from(bytes as Uint8Array).toString("base64url");
const digest = async (text: string | Uint8Array) => Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(text as string)));

/** Returns the head of a CBOR data item (RFC 8949, section 3). */
function cborHead(major: number, value: number): Buffer {
  if (value < 24) return Buffer.from([(major << 5) | value]);
  if (value < 256) return Buffer.from([(major << 5) | 24, value]);
  return Buffer.from([(major << 5) | 25, value >> 8, value & 255]);
}

type Cbor = number | string | Uint8Array | Map<number | string, Cbor>;

function cbor(value: Cbor): Buffer {
  if (typeof value === "number") return value < 0 ? cborHead(1, -1 - value) : cborHead(0, value);
  if (typeof value === "string") return Buffer.concat([cborHead(3, value.length), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([cborHead(2, value.length), value]);
  return Buffer.concat([cborHead(5, value.size), ...[...value].flatMap(([key, item]) => [cbor(key), cbor(item)])]);
}

/** Converts an ECDSA signature to DER. Web Crypto returns a signature as two numbers of 32 bytes. Authenticators return DER. */
function der(signature: Uint8Array): Buffer {
  const integer = (bytes: Uint8Array) => {
    const significant = bytes.subarray(bytes.findIndex((byte) => byte !== 0));
    const padded = (significant[0] ?? 0) > 127 ? Buffer.from([0, ...significant]) : Buffer.from(significant);
    return Buffer.concat([Buffer.from([2, padded.length]), padded]);
  };
  const body = Buffer.concat([integer(signature.subarray(0, 32)), integer(signature.subarray(32))]);
  return Buffer.concat([Buffer.from([0x30, body.length]), body]);
}

/** Creates a device with one passkey. `id` is the credential id of the passkey. */
export async function makeAuthenticator(id = base64url(crypto.getRandomValues(new Uint8Array(16)))): Promise<Authenticator> {
  const pair = (await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"])) as CryptoKeyPair;
  const { x = "", y = "" } = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
  const credentialId = Buffer.from(id, "base64url");
  let signatureCount = 0;

  const clientDataOf = (type: string, challenge: string, client: ClientData) =>
    Buffer.from(JSON.stringify({ type, challenge, origin: relyingParty.origin, crossOrigin: false, ...client }));
  const authenticatorData = async (flags: number, rest: Uint8Array) => {
    signatureCount++;
    return Buffer.concat([await digest(relyingParty.hostname), Buffer.from([flags, 0, 0, 0, signatureCount]), rest]);
  };
  const response = (parts: object) => JSON.stringify({ id, rawId: id, type: "public-key", clientExtensionResults: {}, response: parts });

  return {
    id,
    async register({ challenge }, client = {}) {
      const coseKey: [number, Cbor][] = [
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, Buffer.from(x, "base64url")],
        [-3, Buffer.from(y, "base64url")],
      ];
      const length = Buffer.from([credentialId.length >> 8, credentialId.length & 255]);
      const attested = Buffer.concat([Buffer.alloc(16), length, credentialId, cbor(new Map(coseKey))]);
      // The flags say that the user is present and verified, and that attested credential data is included.
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
