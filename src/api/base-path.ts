export const apiRoot = "/api";
/** The version of the API contract, as a path below `apiRoot`. */
export const apiVersion = "/v1";
export const apiBase = apiRoot + apiVersion;
