// Written by `npm run browser`.

/** The paths of the files that pages load. The name of a file changes with its content. */
export const assets = {
  "console.js": "/assets/console.C6VUAPXF.js",
  "log.js": "/assets/log.BOLGWT6I.js",
  "overview.js": "/assets/overview.ILION4CD.js",
  "passkeys.js": "/assets/passkeys.UWSIN5YH.js",
  "style.css": "/assets/style.DTWCJA2D.css",
} as const;
