import { Hono } from "hono";
import { always } from "../../../db/optimistic-locking.ts";
import { changeKey } from "../../../keys/change-key.ts";
import { readKey, readKeyRow } from "../../../keys/read-keys.ts";
import { rotateKey } from "../../../keys/rotate-key.ts";
import { KeyRotation } from "../../../keys/schemas.ts";
import { secondMs } from "../../../lib/time/clock.ts";
import { needs } from "../../access/needs.ts";
import { requireGrantableScopes } from "../../access/permissions.tsx";
import { ButtonLink, Submit } from "../../components/fields.tsx";
import { showPage } from "../../components/layout.tsx";
import { OverlapField } from "../../components/overlap-field.tsx";
import { showShownBefore } from "../../components/secret.tsx";
import { idOf, type PageEnv } from "../../context.ts";
import { newNonce, runFormIdempotently } from "../../form-idempotency.ts";
import { attempt, parseInput, readForm } from "../../forms.ts";
import { contextOf, snapshotContext } from "../../operation-contexts.ts";
import { showSecret } from "../keys/page.tsx";
import { backToKey, trailOf } from "./frame.tsx";
import { showKey } from "./page.tsx";

/** The pages that rotate the secret of a key or end an overlap. During the overlap, the old secret still works. */
export const keyRotationPages = new Hono<PageEnv>();

keyRotationPages.post("/keys/:id/end-overlap", needs("keys", "always"), async (c) => {
  const changed = await attempt(() => changeKey(contextOf(c), idOf(c), { overlapEndsAt: null }, always));
  return "formError" in changed ? showKey(c, { formError: changed.formError }) : backToKey(c, "overlap-ended");
});

keyRotationPages.get("/keys/:id/rotate", needs("keys"), async (c) => {
  const key = await readKey(await snapshotContext(c), idOf(c));
  if (key.state === "revoked") return c.redirect(`/keys/${key.id}`, 303);
  return showPage(
    c,
    {
      title: `Rotate ${key.name}`,
      section: "API Keys",
      trail: trailOf(key),
    },
    <form class="panel form" method="post" action={`/keys/${key.id}/rotate`}>
      <input type="hidden" name="nonce" value={newNonce()} />
      <p>The key gets a new secret, which is shown once. The name, scopes, limit and used requests of the key stay the same.</p>
      <OverlapField help="The old secret also works for this time, so that you can move your clients to the new secret step by step." />
      <div class="buttons">
        <Submit>Rotate</Submit>
        <ButtonLink href={`/keys/${key.id}`}>Cancel</ButtonLink>
      </div>
    </form>,
  );
});

keyRotationPages.post("/keys/:id/rotate", needs("keys", "always"), async (c) => {
  const form = await readForm(c);
  const parsed = parseInput(KeyRotation, { overlap_seconds: form.number("overlap_seconds") });
  if ("formError" in parsed) return showKey(c, { formError: parsed.formError });
  const overlapMs = parsed.input.overlap_seconds * secondMs;
  const rotated = await attempt(async () => {
    requireGrantableScopes(c, (await readKeyRow(contextOf(c), idOf(c))).scopes);
    return runFormIdempotently(c, form, (commit) => rotateKey(contextOf(c, commit), idOf(c), overlapMs));
  });
  if ("formError" in rotated) return showKey(c, { formError: rotated.formError });
  if ("repeated" in rotated.result)
    return showShownBefore(c, { title: "Rotate a key", section: "API Keys", what: "A new secret", path: `/keys/${idOf(c)}` });
  const { key, secretKey } = rotated.result.result;
  return showSecret(c, {
    title: "Copy the new secret now",
    key,
    secretKey,
    call: `POST /api/v1/keys/${key.id}/rotate {"overlap_seconds": ${parsed.input.overlap_seconds}}`,
    done:
      overlapMs > 0
        ? "Rotated. The old secret works until the overlap ends."
        : "Rotated. Requests with the old secret are refused from now on.",
  });
});
