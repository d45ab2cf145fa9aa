/** The driver of SQLite itself. */

import { createRequire } from "node:module";

/** Not `import`ed: of a module that is none of ECMAScript, Node would first search the text for what it exports. */
export const Database = createRequire(import.meta.url)("better-sqlite3");
