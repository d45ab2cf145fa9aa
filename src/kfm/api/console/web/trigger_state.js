// What became of something that the server has accepted.
import { code, element, pairs, said } from "./page_parts.js";
import { asked } from "./server.js";

const PAUSE_MS = 700;
const MOST = 1200;
const pause = () => new Promise((go) => setTimeout(go, PAUSE_MS));

function told(found) {
  if (found.state === "waiting") return said("", "It waits for ", found.waits_for || "its turn", ".");
  if (found.state === "running") return said("", "It is being done.");
  const how = found.outcome || "ended";
  if (found.exit_code === 0) return said("good", `Done: ${how}.`);
  return said("bad", `It was not done (${how}). ${found.words}`);
}

/** Show in a place what the server says of a trigger, until it has ended. Returns the last answer. */
export async function followed(place, accepted) {
  const status = element("div", { role: "status" });
  place.replaceChildren(status);
  for (let turn = 0; ; turn += 1) {
    const found = await asked(accepted.see);
    const shown = told(found);
    if (status.textContent !== shown.textContent) status.replaceChildren(shown);
    if (found.state === "done" || turn === MOST) {
      const run = found.run_id && element("a", { href: `/runs/${found.run_id}` }, found.run_id.slice(0, 8));
      place.append(pairs([["Trigger", code(found.trigger_id)], ["Run", run || ""]]));
      return found;
    }
    await pause();
  }
}
