export const twoDecimals = (value: number): number => Math.round(value * 100) / 100;

/** A share in percent with two decimals, from 0 to 100; only a whole is 100. `whole` above 0. */
export function percent(part: number, whole: number): number {
  if (part >= whole) return 100;
  return Math.min(twoDecimals((part / whole) * 100), 99.99);
}
