/** No response arrived, because the connection failed or broke. `cause` is the original error from the platform. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";

  constructor(cause: unknown, attempts: number) {
    const { message, cause: inner } = cause as Partial<Error>;
    const reason = inner instanceof Error && inner.message !== "" ? inner.message : (message ?? String(cause));
    super(`The connection failed${attempts > 1 ? ` ${attempts} times` : ""}: ${reason}`, { cause });
  }
}

/** The service did not respond in time. The request may still have taken effect. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";

  constructor(timeoutMs: number) {
    super(`The service did not respond within ${Math.max(0, Math.round(timeoutMs))} ms.`);
  }
}

/**
 * This error is thrown if the response did not come from the service, or if the response body is empty or truncated. For example, redirects and
 * responses from proxies cause this error. A HEAD request that fails also causes this error, because the response has no body.
 */
export class UnexpectedResponseError extends Error {
  override readonly name = "UnexpectedResponseError";
  readonly status: number;
  /** The id of the request, or null if the response did not come from the service. */
  readonly requestId: string | null;
  readonly response: Response;

  constructor(response: Response, text: string) {
    const requestId = response.headers.get("X-Request-Id");
    const named = [`${response.status} ${response.statusText}`.trim(), text.slice(0, 200)].filter(Boolean).join(": ");
    super(`Unexpected response: ${named}${requestId === null ? "" : ` (request ${requestId})`}`);
    this.status = response.status;
    this.requestId = requestId;
    this.response = response;
  }
}

/** Throws an `UnexpectedResponseError` if the body of a successful response is neither JSON nor YAML. An example is the HTML of a sign-in page. */
export async function requireBody(response: Response): Promise<void> {
  const text = await response.clone().text();
  const type = response.headers.get("Content-Type") ?? "";
  if (/^application\/yaml\b/i.test(type) && text !== "") return;
  if (!/^application\/json\b/i.test(type)) throw new UnexpectedResponseError(response, text);
  try {
    JSON.parse(text);
  } catch {
    throw new UnexpectedResponseError(response, text);
  }
}

/** A key or webhook from a replayed response, without its secret. */
interface WithoutSecret {
  id: string;
}

/**
 * An earlier attempt succeeded, but the response was lost. The service shows a secret only once, so the secret in the lost response cannot be
 * shown again. The key or webhook in `data` exists. Create a new secret with `client.keys.rotate(error.data.id)` or
 * `client.webhooks.rotateSecret(error.data.id)`.
 */
export class SecretLostError extends Error {
  override readonly name = "SecretLostError";
  readonly data: WithoutSecret;
  readonly requestId: string | null;
  readonly response: Response;

  constructor(data: WithoutSecret, response: Response) {
    const requestId = response.headers.get("X-Request-Id");
    const remedy = data.id.startsWith("key_") ? `client.keys.rotate("${data.id}")` : `client.webhooks.rotateSecret("${data.id}")`;
    super(
      `${data.id} has its secret, but an earlier response that showed it was lost, and it is shown once. Make a new one: ${remedy} (request ${requestId})`,
    );
    this.data = data;
    this.requestId = requestId;
    this.response = response;
  }
}

/** Throws a `SecretLostError` if the response replays an earlier response that contained a secret. */
export async function requireSecret(response: Response): Promise<void> {
  if (!response.headers.has("Idempotent-Replayed")) return;
  const data = (await response.clone().json()) as WithoutSecret & { secret_key?: string | null; secret?: string | null };
  if (data.secret_key === null || data.secret === null) throw new SecretLostError(data, response);
}
