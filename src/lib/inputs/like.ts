import type { z } from "zod";

/** Copies the description and the first example of a response schema to an input schema with the same meaning. */
export const like = <Input extends z.ZodType>(input: Input, output: z.ZodType): Input => {
  const { description, examples } = output.meta() ?? {};
  const example = (examples as unknown[] | undefined)?.[0];
  return input.meta({ ...(description !== undefined && { description }), example });
};
