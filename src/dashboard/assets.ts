// Written by `npm run browser`.

/** The paths of the files that pages load. The name of a file changes with its content. */
export const assets = {
  "console.js": "/assets/console.7JYINQ7A.js",
  "log.js": "/assets/log.QECUUUWY.js",
  "overview.js": "/assets/overview.TZVXTKO3.js",
  "passkeys.js": "/assets/passkeys.UWSIN5YH.js",
  "style.css": "/assets/style.DIXUT7XU.css",
} as const;
