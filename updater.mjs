#!/usr/bin/env node
// `node updater.mjs run …` is `python -m updater run …`, in another language.

import { asGiven, main } from "./node/cli.mjs";

process.exit(await main(...asGiven(process.argv.slice(2), process.env)));
