/**
 * Resolves as `work` does, but rejects where that takes longer than `ms`. The work itself goes on. `late`: what it rejects with then; a
 * text stands for an error that names the work.
 */
export function withDeadline<Result>(work: Promise<Result>, ms: number, late: string | (() => Error)): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  const expire = () => reject(typeof late === "string" ? new Error(`${late} has taken longer than ${ms} ms`) : late());
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
