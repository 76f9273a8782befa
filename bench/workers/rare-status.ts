/** The status of one in 100,000 entries in the logs of the part `growth`. */
export const rareStatus = 507;
