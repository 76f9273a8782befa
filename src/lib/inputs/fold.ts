/**
 * Returns a text in the form in which searches compare it: NFKC, and without the difference of upper and lower case. Capital letters come first, because `ß` and
 * `SS`, `ı` and `I`, and the three forms of sigma, only become equal there. `İ` has a dot that `I` has not, so the dot goes.
 */
export const folded = (text: string): string =>
  text
    .normalize("NFKC")
    .toUpperCase()
    // The capital form of `ß`.
    .replaceAll("\u1E9E", "SS")
    .replaceAll("\u0130", "I")
    .toLowerCase()
    .replaceAll("ς", "σ")
    .replaceAll("i\u0307", "i")
    .normalize("NFKC");
