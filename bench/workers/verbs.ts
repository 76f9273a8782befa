/** Returns a Worker that runs the command that the path of a request names, with the body of the request. */
export const workerOf = <Bindings>(verbs: Record<string, (body: never, env: Bindings) => Promise<unknown>>): ExportedHandler<Bindings> => ({
  async fetch(request, env) {
    const verb = verbs[new URL(request.url).pathname.slice(1)];
    if (!verb) return new Response("ready");
    const body = request.method === "POST" ? await request.json() : null;
    return Response.json((await verb(body as never, env)) ?? null);
  },
});
