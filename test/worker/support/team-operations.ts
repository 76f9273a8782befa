import { expect } from "vitest";
import { newId } from "../../../src/lib/ids.ts";
import type { DocumentedOperation } from "./documented.ts";
import { ofTeam, operate } from "./operate.ts";

// Sample requests for all operations of the team API. Each of them succeeds.

/** An account with one key, and the secret of this key. */
export interface Customer {
  accountId: string;
  keyId: string;
  secretKey: string;
}

interface Sample {
  /** The expected status of the response. The default is the first documented status of success. */
  status?: number;
  body?: unknown;
  /** Creates what the path names. The default is the account or the key of the customer. */
  id?: () => Promise<string>;
  /** Prepares the request. */
  before?: (customer: Customer) => Promise<unknown>;
}

const idOf = async (path: string, body: object): Promise<string> => {
  const answer = await operate("POST", path, body);
  expect([answer.status, answer.body]).toEqual([201, expect.anything()]);
  return answer.body.id;
};
const unique = () => crypto.randomUUID();
/** Returns the prefix of a form that overlaps no other one. */
const formPrefix = () => `sample${unique().slice(0, 8)}_`;
const newPlan = () => ({ name: `Plan ${unique()}`, account_limits: [{ per: "month", limit: 100_000 }] });
const plan = () => idOf("/plans", newPlan());
const form = () => ({ prefix: formPrefix(), min_length: 32, max_length: 64, alphabet: "hex" });
const keyForm = () => idOf("/key-forms", form());
const receipt = async ({ secretKey }: Customer) =>
  (await operate("POST", "/verify", { key: secretKey, method: "GET", path: "/orders", report: true })).body.receipt as string;

const holding = (more: object) => ({ holder: "sample", protocol: 1, ...more });

const samples: Record<string, Sample> = {
  verify: { body: ({ secretKey }: Customer) => ({ key: secretKey, method: "GET", path: "/orders" }) },
  report: { body: async (customer: Customer) => ({ reports: [{ receipt: await receipt(customer), status: 200, duration_ms: 12 }] }) },
  lease: { body: ({ secretKey }: Customer) => holding({ keys: [{ key: secretKey, want: 8 }] }) },
  storeEntries: {
    body: async ({ secretKey }: Customer) => {
      const { body } = await operate("POST", "/leases", holding({ keys: [{ key: secretKey, want: 8 }] }));
      const entry = { id: newId("req", Date.now()), lease: body.data[0].lease, status: 200, duration_ms: 12 };
      return { holder: "sample", entries: [entry] };
    },
  },
  adoptKey: {
    body: async () => {
      const external = `cus_${unique()}`;
      await operate("PUT", `/accounts/by-external-id/${external}`, { name: "Sample" });
      return { external_id: external, hash: unique().replaceAll("-", "").repeat(2), algorithm: "sha256" };
    },
  },
  addShadowFindings: {
    body: () => {
      const finding = { account: null, key: null, code: null, own: "allowed", credential: null, count: 1 };
      return { holder: unique(), sequence: 1, findings: [finding] };
    },
  },
  createAccount: { body: { name: "Sample", email: "sample@example.com" }, status: 201 },
  putAccountByExternalId: { body: { name: "Sample" }, status: 201, id: async () => `cus_${unique()}` },
  updateAccount: { body: { name: "Renamed", metadata: { plan: "pro" } } },
  setCeiling: { body: { limit: 4000 } },
  setRetentionDays: { body: { days: 40 } },
  setStorageQuota: { body: { bytes: null } },
  eraseAccount: { body: ({ accountId }: Customer) => ({ confirm: accountId }) },
  getErasure: { before: ({ accountId }) => operate("POST", `/accounts/${accountId}/erase`, { confirm: accountId }) },
  listKeys: { before: ({ accountId }) => operate("POST", `/accounts/${accountId}/keys`, { name: "Another", scopes: [] }) },
  createKey: { body: { name: "Second", scopes: [] } },
  listServiceTokens: { before: () => operate("POST", "/tokens", { name: "Another", scopes: ["verify"] }) },
  updateKey: { body: { name: "Renamed" } },
  setKeyLimit: { body: { limit: 1000 } },
  setKeyLimits: { body: { limits: [{ per: "hour", limit: 900 }] } },
  createPortalLink: {
    body: { member: { external_id: "user_42" }, role: "viewer", return_url: "http://localhost:3000/settings" },
    status: 201,
  },
  importKeys: {
    body: () => ({ keys: [{ name: "Imported", hash: unique().replaceAll("-", "").repeat(2), algorithm: "sha256", encoding: "hex" }] }),
  },
  listKeyForms: { before: keyForm },
  addKeyForm: { body: form, status: 201 },
  deleteKeyForm: { id: keyForm },
  listPlans: { before: plan },
  createPlan: { body: newPlan },
  getPlan: { id: plan },
  updatePlan: { id: plan, body: { retention_days: 40 } },
  deletePlan: { id: plan },
  createServiceToken: { body: { name: "Sample", scopes: ["verify"] } },
  revokeServiceToken: { id: () => idOf("/tokens", { name: "Sample", scopes: ["verify"] }) },
};

/** Returns the sample of an operation. An operation without a sample needs no body. */
const sampleOf = ({ operationId }: DocumentedOperation): Sample => samples[operationId] ?? {};

/** Creates an account with a key. */
export async function makeCustomer(): Promise<Customer> {
  const accountId = await idOf("/accounts", { name: "Customer", email: "customer@example.com" });
  const { body } = await operate("POST", `/accounts/${accountId}/keys`, { name: "First", scopes: [] });
  return { accountId, keyId: body.id, secretKey: body.secret_key };
}

/** Returns the request of an operation's sample. */
export async function requestOf(
  operation: DocumentedOperation,
  customer: Customer,
): Promise<{ path: string; body: unknown; status: number }> {
  const sample = sampleOf(operation);
  await sample.before?.(customer);
  const id = sample.id ? await sample.id() : operation.path.startsWith("/team/v1/keys/") ? customer.keyId : customer.accountId;
  const [documented] = Object.keys(operation.responses).filter((each) => each.startsWith("2"));
  return {
    path: operation.path.replace("/team/v1", "").replace(/\{\w+\}/, id),
    body: typeof sample.body === "function" ? await sample.body(customer) : sample.body,
    status: sample.status ?? Number(documented),
  };
}

/** Deletes the forms that samples have registered, because a deployment has at most 20. */
export async function deleteSampleForms(): Promise<void> {
  const { body } = await operate("GET", "/key-forms?limit=100");
  const ours = body.data.filter(({ prefix }: { prefix: string }) => prefix.startsWith("sample"));
  for (const { id } of ours) await operate("DELETE", `/key-forms/${id}`);
}

type TeamOperation = DocumentedOperation & { parameters?: { name: string }[]; requestBody?: { required?: boolean } };

/** All operations of the team API but forward auth, which takes its token in another header and serves any method. */
export const teamOperations: readonly TeamOperation[] = ofTeam.operations.filter(({ operationId }) => operationId !== "forwardAuth");
