/**
 * The time of the request that decides, in milliseconds since the epoch. On Cloudflare, each request has its own clock, which stands still between I/O. A time
 * that comes from another request, or from before an `await`, can therefore be too early, and a lease would be used after its end. Only `thisMoment` makes one.
 */
export type Moment = number & { readonly of: unique symbol };

/** Reads the clock of this request. Call it in the same synchronous step as the decision. */
export const thisMoment = (): Moment => Date.now() as Moment;
