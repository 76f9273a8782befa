/**
 * What applies to each route. In the APIs: the scope, and the accounts that a token reaches if it is bound to accounts. Then whether a request is counted, whether
 * the route takes an Idempotency-Key (idempotent), and If-Match and If-None-Match (conditional), and whether it runs in a share of the CPU. On pages: the surface
 * and the access.
 */
export const routesTable = `
GET /api/v1/users | users:read | shares CPU
POST /api/v1/users | users:write | idempotent
GET /api/v1/users/{id} | users:read | conditional
PATCH /api/v1/users/{id} | users:write | conditional
DELETE /api/v1/users/{id} | users:write | conditional
GET /api/v1/tasks | tasks:read | shares CPU
POST /api/v1/tasks | tasks:write | idempotent
GET /api/v1/tasks/{id} | tasks:read | conditional
PATCH /api/v1/tasks/{id} | tasks:write | conditional
DELETE /api/v1/tasks/{id} | tasks:write | conditional
GET /api/v1/analytics | analytics:read | costs 5 | shares CPU
GET /api/v1/me | any
GET /api/v1/rate-limit | any | not counted
GET /api/v1/usage | usage:read | shares CPU
GET /api/v1/usage/breakdown | usage:read | shares CPU
GET /api/v1/activity | activity:read | shares CPU
GET /api/v1/activity/{id} | activity:read | conditional | shares CPU
GET /api/v1/keys | keys:read | shares CPU
POST /api/v1/keys | keys:write | idempotent
GET /api/v1/keys/{id} | keys:read | conditional
PATCH /api/v1/keys/{id} | keys:write | conditional
DELETE /api/v1/keys/{id} | keys:write | conditional
POST /api/v1/keys/{id}/rotate | keys:write | idempotent
POST /api/v1/keys/revoke-leaked | public
GET /api/v1/account/limits | usage:read
GET /api/v1/webhooks | webhooks:read | shares CPU
POST /api/v1/webhooks | webhooks:write | idempotent
GET /api/v1/webhooks/{id} | webhooks:read | conditional
PATCH /api/v1/webhooks/{id} | webhooks:write | conditional
DELETE /api/v1/webhooks/{id} | webhooks:write | conditional
POST /api/v1/webhooks/{id}/rotate-secret | webhooks:write | idempotent
GET /api/v1/webhooks/{id}/deliveries | webhooks:read | shares CPU
GET /api/v1/deliveries/{id} | webhooks:read | conditional
POST /api/v1/deliveries/{id}/redeliver | webhooks:write | idempotent
POST /api/v1/deliveries/{id}/attempt | webhooks:write | idempotent
POST /api/v1/webhooks/{id}/test | webhooks:write | idempotent
POST /api/v1/webhooks/{id}/redeliver | webhooks:write | idempotent
GET /api/v1/redeliveries/{id} | webhooks:read | conditional
GET /api/v1/event-types | webhooks:read
GET /api/v1/events | webhooks:read | shares CPU
GET /api/v1/events/{id} | webhooks:read | conditional
GET /api/v1/audit | audit:read | shares CPU
GET /api/v1/openapi.json | public | conditional
GET /api/v1/openapi.yaml | public | conditional
POST /team/v1/verify | verify | reaches handler
POST /team/v1/leases | verify | reaches handler
POST /team/v1/entries | verify | reaches handler
POST /team/v1/reports | verify | reaches handler
GET /team/v1/accounts | accounts:read | reaches handler
POST /team/v1/accounts | accounts:write | reaches handler | idempotent
PUT /team/v1/accounts/by-external-id/{external_id} | accounts:write | reaches handler | conditional
GET /team/v1/accounts/{id} | accounts:read | reaches path | conditional
PATCH /team/v1/accounts/{id} | accounts:write | reaches path | conditional
POST /team/v1/accounts/{id}/suspend | operate | reaches path
POST /team/v1/accounts/{id}/resume | operate | reaches path
GET /team/v1/accounts/{id}/storage | operate | reaches path
PUT /team/v1/accounts/{id}/storage-quota | operate | reaches path
POST /team/v1/accounts/{id}/owners | operate | reaches path | idempotent
GET /team/v1/accounts/{id}/export | operate | reaches path | shares CPU
GET /team/v1/accounts/{id}/log | operate | reaches path | shares CPU
POST /team/v1/accounts/{id}/erase | operate | reaches path
GET /team/v1/accounts/{id}/erasure | operate | reaches path
POST /team/v1/accounts/{id}/portal-links | portal:write | reaches path | idempotent
DELETE /team/v1/accounts/{id}/portal-sessions | portal:write | reaches path
POST /team/v1/keys/adopt | keys:adopt | reaches handler
GET /team/v1/accounts/{id}/keys | accounts:read | reaches path
POST /team/v1/accounts/{id}/keys | keys:write | reaches path | idempotent
GET /team/v1/keys/{id} | accounts:read | reaches handler | conditional
PATCH /team/v1/keys/{id} | keys:write | reaches handler | conditional
DELETE /team/v1/keys/{id} | keys:write | reaches handler | conditional
POST /team/v1/keys/{id}/rotate | keys:write | reaches handler | idempotent
POST /team/v1/keys/{id}/revoke | keys:write | reaches handler
POST /team/v1/keys/{id}/disable | keys:write | reaches handler
POST /team/v1/keys/{id}/enable | keys:write | reaches handler
PUT /team/v1/keys/{id}/limit | keys:write | reaches handler
PUT /team/v1/keys/{id}/limits | keys:write | reaches handler
POST /team/v1/accounts/{id}/keys/import | keys:write | reaches path
GET /team/v1/key-forms | accounts:read | reaches deployment
POST /team/v1/key-forms | keys:write | reaches deployment
DELETE /team/v1/key-forms/{id} | keys:write | reaches deployment
POST /team/v1/shadow | verify | reaches handler
GET /team/v1/shadow | accounts:read | reaches deployment
DELETE /team/v1/shadow | accounts:write | reaches deployment
GET /team/v1/plans | operate | reaches deployment
POST /team/v1/plans | operate | reaches deployment | idempotent
GET /team/v1/plans/{id} | operate | reaches deployment | conditional
PATCH /team/v1/plans/{id} | operate | reaches deployment | conditional
DELETE /team/v1/plans/{id} | operate | reaches deployment | conditional
GET /team/v1/tokens | tokens:write | reaches handler
POST /team/v1/tokens | tokens:write | reaches handler | idempotent
DELETE /team/v1/tokens/{id} | tokens:write | reaches handler
GET /team/v1/status | operate | reaches deployment | shares CPU
POST /team/v1/guards/reconcile | operate | reaches deployment
GET /team/v1/secrets | operate | reaches deployment
POST /team/v1/secrets/reencrypt | operate | reaches deployment
GET /team/v1/deliveries | operate | reaches deployment
POST /team/v1/deliveries/drain | operate | reaches deployment
POST /team/v1/log/flush | operate | reaches deployment
POST /team/v1/alerts/test | operate | reaches deployment
GET /team/v1/audit | operate | reaches deployment
GET /team/v1/openapi.json | any | reaches handler
GET /health | health
ALL /team/v1/verify/forward | forward auth
GET /metrics | metrics
GET /operator | operator
POST /operator/session | operator
POST /operator/sign-out | operator
GET /docs/team | operator
GET /docs/team/* | operator
GET /docs/ | docs
GET /docs/api | docs
GET /docs/guides | docs
GET /docs/errors | docs
GET /docs/events | docs
GET /docs/schemas | docs
GET /docs/search | docs
GET /docs/search.md | docs
GET /docs | docs
GET /docs.md | docs
GET /docs/* | docs
GET /favicon.ico | docs
GET /llms.txt | docs
GET /robots.txt | docs
GET /sitemap.xml | docs
GET /.well-known/security.txt | docs
GET /.well-known/api-catalog | docs
GET /login | sign-in
POST /login/options | sign-in
POST /login | sign-in
GET /login/recovery | sign-in
POST /login/recovery | sign-in
GET /setup | sign-in
POST /setup/check | sign-in
POST /setup/options | sign-in
POST /setup | sign-in
GET /access | sign-in
POST /access/join | sign-in
POST /access/account | sign-in
GET /portal | sign-in
POST /portal | sign-in
POST /confirm/options | dashboard | session
GET / | dashboard | session
GET /usage | dashboard | session
GET /usage.csv | dashboard | session
GET /limits | dashboard | session
GET /keys | dashboard | session
GET /keys/new | dashboard | keys
POST /keys | dashboard | keys | step-up always
GET /keys/:id | dashboard | session
POST /keys/:id/disable | dashboard | keys
POST /keys/:id/enable | dashboard | keys | step-up always
POST /keys/:id/send-as | dashboard | keys | step-up always
GET /keys/:id/first-request | dashboard | session
GET /keys/:id/settings | dashboard | session
POST /keys/:id | dashboard | keys | step-up sometimes
POST /keys/:id/end-overlap | dashboard | keys | step-up always
GET /keys/:id/rotate | dashboard | keys
POST /keys/:id/rotate | dashboard | keys | step-up always
GET /keys/:id/revoke | dashboard | keys
POST /keys/:id/revoke | dashboard | keys | step-up always
GET /deliveries/:id | dashboard | session
POST /deliveries/:id/redeliver | dashboard | webhooks | step-up always
POST /deliveries/:id/attempt | dashboard | webhooks
GET /webhooks/:id/redeliver | dashboard | webhooks
POST /webhooks/:id/redeliver | dashboard | webhooks | step-up always
GET /webhooks | dashboard | session
GET /webhooks/new | dashboard | webhooks
POST /webhooks | dashboard | webhooks | step-up always
GET /webhooks/:id | dashboard | session
GET /webhooks/:id/verify | dashboard | session
POST /webhooks/:id/disable | dashboard | webhooks
POST /webhooks/:id/enable | dashboard | webhooks | step-up always
POST /webhooks/:id/test | dashboard | webhooks
GET /webhooks/:id/settings | dashboard | session
POST /webhooks/:id | dashboard | webhooks | step-up sometimes
GET /webhooks/:id/delete | dashboard | webhooks
POST /webhooks/:id/delete | dashboard | webhooks | step-up always
GET /webhooks/:id/rotate-secret | dashboard | webhooks
POST /webhooks/:id/rotate-secret | dashboard | webhooks | step-up always
GET /activity | dashboard | session
GET /activity/news | dashboard | session
GET /activity.csv | dashboard | session
GET /activity/:id | dashboard | session
GET /settings/audit | dashboard | audit
GET /settings/audit.csv | dashboard | audit
GET /settings | dashboard | session
POST /preferences | dashboard | public
POST /settings/invitations | dashboard | members | step-up always
POST /settings/invitations/:id/withdraw | dashboard | members | step-up always
POST /settings/members/:id/role | dashboard | members | step-up always
GET /settings/members/:id/remove | dashboard | members
POST /settings/members/:id/remove | dashboard | members | step-up always
POST /settings/sessions/:id/end | dashboard | session | step-up sometimes
POST /settings/sessions/end-others | dashboard | session
POST /settings/passkeys/options | dashboard | own sign-in | step-up always
POST /settings/passkeys | dashboard | own sign-in | step-up always
POST /settings/passkeys/:id/remove | dashboard | own sign-in | step-up always
POST /settings/recovery-codes | dashboard | own sign-in | step-up always
POST /logout | dashboard | any session
GET /search | dashboard | session
`;
