import type { z } from "zod";

/** An input that means what a member of an answer means: with the same description and example. */
export const like = <Input extends z.ZodType>(input: Input, output: z.ZodType): Input => {
  const { description, examples } = output.meta() ?? {};
  const example = (examples as unknown[] | undefined)?.[0];
  return input.meta({ ...(description !== undefined && { description }), example });
};
