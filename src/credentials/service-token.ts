import { formOf, newPublicPart, newSignedSecret, publicPartOf, type SigningSecret } from "./signed-secret.ts";

// A service token is a signed secret with the prefix `svc`. Its id is the prefix and the public part, so the id can be read in a log.

const form = formOf(["svc"]);

/** The length of the id with which a token begins. */
export const tokenIdLength = "svc_".length + 16;

export const newTokenId = (): string => `svc_${newPublicPart()}`;

export const isTokenId = (text: string): boolean => /^svc_[0-9A-Za-z]{16}$/.test(text);

/** Returns whether a text claims to be a service token. Does not check the format or the tag. */
export const looksLikeServiceToken = (text: string): boolean => text.startsWith("svc_");

/** Returns a new service token. It is shown once. The service stores a hash (`hashOf`) instead of the token. */
export const newServiceToken = (id: string, signing: SigningSecret): string => newSignedSecret(id, signing);

/** Returns the id of a valid service token, or null if the format or the tag is not valid. */
export function tokenIdOf(token: string, signing: readonly SigningSecret[]): string | null {
  const publicPart = publicPartOf(token, form, signing);
  return publicPart === null ? null : `svc_${publicPart}`;
}
