/**
 * Resolves as `work` does, but rejects where that takes longer than `ms`. The work itself goes on. `late`: what it rejects with then; a
 * text stands for an error that names the work.
 */
export async function withDeadline<Result>(work: Promise<Result>, ms: number, late: string | (() => Error)): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const passed = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(typeof late === "string" ? new Error(`${late} has taken longer than ${ms} ms`) : late()), ms);
  });
  try {
    return await Promise.race([work, passed]);
  } finally {
    clearTimeout(timer);
  }
}
