// The page of operations: ask what would happen, show it, ask the person, sign, send, and tell where it stands.
import { ownKey, whyNoKey } from "./browser_key.js";
import { button, choices, code, element, said, show } from "./page_parts.js";
import { visible, wholeRequest } from "./request_parts.js";
import { asked, sent, Unanswered } from "./server.js";
import { signAct } from "./signature.js";
import { followed } from "./trigger_state.js";

const form = document.getElementById("operation-form");
const place = document.getElementById("operation");
const OWN = { promote: ["to"], rollback: ["to"], freeze: ["level"], thaw: ["level"], run: [] };
const heading = (words) => element("h2", {}, words);
const failed = (problem) => place.append(said("bad", `That did not work: ${problem.message}`));

function wished() {
  const given = new FormData(form);
  const operation = given.get("operation");
  const own = OWN[operation].map((name) => [name, given.get(name).trim()]);
  const reason = document.getElementById("reason").value.trim();
  return { operation, dataset: given.get("dataset"), reason, ...Object.fromEntries(own) };
}

function moved(move) {
  const what = move.ref.startsWith("published/") ? `What the public sees of ${move.ref.slice(10)}` : move.ref;
  return element("li", {}, `${visible(what)}: from `, code(move.before), " to ", code(move.after));
}

function* told(found) {
  if (found.moves.length > 0) yield element("ul", { class: "moves" }, ...found.moves.map(moved));
  else if (found.operation !== "run") yield element("p", {}, "Nothing would move.");
  const changes = Object.entries(found.changes).map(([what, count]) => `${count} ${what}`);
  if (found.operation === "run") {
    yield element("p", {}, `The run would end as ${found.outcome}. Keys: ${changes.join(", ") || "none"}.`);
  }
  if (found.files.length > 0) yield element("p", {}, `${found.files.length} public files would change.`);
  yield found.allowed
    ? said("good", "Labels, gates and policies allow it.")
    : said("bad", "It would be refused.");
  if (found.reasons.length > 0) {
    yield element("ul", {}, ...found.reasons.map((reason) => element("li", {}, visible(reason))));
  }
  if (found.needs.length > 0) {
    yield element("h3", {}, "Who must sign");
    yield element("ul", {}, ...found.needs.map((need) => element("li", {}, visible(need))));
  }
  if (found.is_withheld) yield element("p", { class: "note" }, "The data is not plainly public, so little is shown.");
}

/** Why this browser cannot send it; empty if it can. */
function obstacle(found, key) {
  if (!found.allowed) return "It would be refused, so it is not sent.";
  if (found.operation !== "run" && found.moves.length === 0) return "There is nothing to do.";
  if (found.needs.length === 0) return "";
  if (found.to_sign === null) return "What would be signed is not shown here: sign it on the command line, with --key.";
  if (whyNoKey()) return `It needs a signature, and ${whyNoKey()}.`;
  return key === null ? "It needs a signature, and this browser has no key. Make one on the page My key." : "";
}

async function look() {
  const wanted = wished();
  show(place, heading("What would happen"), said("", "The server looks …"));
  if (wanted.operation !== "run" && wanted.reason === "") {
    show(place, heading("What would happen"), said("bad", "Give a reason first: it goes into the ledger."));
    return;
  }
  const found = await sent("/v1/operations", { ...wanted, dry_run: true });
  const key = found.needs.length > 0 && !whyNoKey() ? await ownKey() : null;
  const parts = [heading("What would happen"), ...told(found)];
  const stop = obstacle(found, key);
  if (stop !== "") {
    show(place, ...parts, said("", stop));
    return;
  }
  const whole = found.to_sign === null ? null : await wholeRequest(found.to_sign.request, found.to_sign.digest);
  if (whole !== null) parts.push(element("h3", {}, "The exact request that you sign"), whole.list);
  const once = crypto.randomUUID(); // pressed twice or sent again: one effect
  const send = async () => {
    const seen = wanted.operation !== "run" ? { before: found.moves[0].before } : {}; // or it is not what was shown
    const body = { ...wanted, ...seen };
    if (whole !== null) {
      body.signed = { request: whole.request, ...(await signAct("request", whole.request, key, found.to_sign.at)) };
    }
    await deliver(body, once);
  };
  show(place, ...parts, element("h3", {}, "Do this?"), choices(
    button(whole === null ? "Yes, do it" : "Yes, sign and send it", send, failed),
    button("No, leave it", left, failed, { class: "quiet" }),
  ));
}

function left() {
  show(place, said("", "Nothing was sent, and nothing has changed."));
}

async function deliver(body, once) {
  let accepted;
  try {
    accepted = await sent("/v1/operations", body, once);
  } catch (problem) {
    if (!(problem instanceof Unanswered)) throw problem;
    show(place, said("bad", `It is not known whether this arrived: ${problem.message}.`), choices(
      button("Send it again: it counts once", () => deliver(body, once), failed),
    ));
    return;
  }
  show(place, heading("Where it stands"));
  const state = element("div");
  place.append(state);
  const ended = await followed(state, accepted);
  if (accepted.change_request && ended.exit_code === 0) await waitsForOthers(accepted.change_request);
}

async function waitsForOthers(id) {
  const found = await asked(`/v1/requests/${id}`);
  if (found.state !== "open") return;
  const link = element("a", { href: `/review#${id}` }, `change request ${id}`);
  place.append(said("", "Others must sign it: ", link), element("ul", {}, ...found.needs.map((need) =>
    element("li", {}, visible(need)))));
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  place.focus();
  look().catch((problem) => show(place, heading("What would happen"), said("bad", problem.message)));
});
if (place !== null) show(place, said("", "Choose an operation. Nothing changes before you say so."));
