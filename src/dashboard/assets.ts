// Written by `npm run browser`.

/** The paths of the files that pages load. The name of a file changes with its content. */
export const assets = {
  "console.js": "/assets/console.Z6GLKLQS.js",
  "log.js": "/assets/log.Y6W54TXW.js",
  "overview.js": "/assets/overview.BZRNVF56.js",
  "passkeys.js": "/assets/passkeys.UWSIN5YH.js",
  "reference.js": "/assets/reference.2EBDTJLK.js",
  "style.css": "/assets/style.HDI7TSAE.css",
} as const;
