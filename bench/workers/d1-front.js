/** Names the database, which no address can. */
export default {
  fetch: (request, env) => env.D1.fetch(request),
};
