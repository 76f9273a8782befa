/** The origin of the page around the frame of this page, or undefined if there is none. */
export const { framedBy } = document.documentElement.dataset;

/** The headers that say that a request comes from a frame, whose session is one of its own. */
export const ofFrame: Record<string, string> = framedBy === undefined ? {} : { "Overview-Frame": "1" };
