/** The error of work that has taken too long. */
export class DeadlineExceeded extends Error {}

/**
 * Returns a promise that settles like `work`. If `work` takes longer than `ms` milliseconds, the promise rejects. The timeout does not
 * cancel the work. `late` is the name of the work for the error message, or a function that returns the error.
 */
export function withDeadline<Result>(work: Promise<Result>, ms: number, late: string | (() => Error)): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  const expire = () => reject(typeof late === "string" ? new DeadlineExceeded(`${late} has taken longer than ${ms} ms`) : late());
  const timer = setTimeout(expire, ms);
  const settle =
    <Value>(how: (value: Value) => void) =>
    (value: Value) => {
      clearTimeout(timer);
      how(value);
    };
  work.then(settle(resolve), settle(reject));
  return promise;
}
