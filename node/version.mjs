/** The version of KFM: one for both runners, so that neither's receipts tell them apart. */

export const VERSION = "0.1.0";
