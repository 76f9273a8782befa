/** Returns code as HTML with a class for each token that stands out. Code in an unknown language is only escaped. */
export function highlight(code: string, language: string | undefined): string;
