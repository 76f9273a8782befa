export const apiRoot = "/api";
/** Of the contract, within the root. */
export const apiVersion = "/v1";
export const apiBase = apiRoot + apiVersion;
