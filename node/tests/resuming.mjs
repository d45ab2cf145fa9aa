/** Takes up whatever was left in the installation of a configuration: `node resuming.mjs kfm.yml`, a line a receipt. */

import { fromEnvironment } from "../clock.mjs";
import { load } from "../config.mjs";
import { openHouse } from "../runtime.mjs";

const house = await openHouse(await load(process.argv[2], process.env), { clock: fromEnvironment(process.env), actor: "node" });
const told = [];
for await (const receipt of house.resume(process.argv[3] ?? null, {
  tell: (name, problem) => told.push([name, problem.code]),
})) {
  told.push([receipt.updater_id, receipt.outcome]);
}
await house.settle();
house.close();
process.stdout.write(JSON.stringify(told));
