export const apiBase = "/api/v1";
