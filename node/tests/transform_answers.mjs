/** What twin.mjs can be asked about declared steps. */

import { answer } from "./transforms.mjs";

export const ANSWERS = {
  transform: (given, limits) => answer(given, limits),
};
