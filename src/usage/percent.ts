export const twoDecimals = (value: number): number => Math.round(value * 100) / 100;

/**
 * Returns a share in percent with two decimals, from 0 to 100. If `part` is less than `whole`, returns at most 99.99. `whole` must be above
 * 0.
 */
export function percent(part: number, whole: number): number {
  if (part >= whole) return 100;
  return Math.min(twoDecimals((part / whole) * 100), 99.99);
}
