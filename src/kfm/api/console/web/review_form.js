// The page of what waits for a decision: show a change request whole, and sign the approval or rejection of exactly it.
import { ownKey, whyNoKey } from "./browser_key.js";
import { button, choices, element, said, show } from "./page_parts.js";
import { visible, wholeRequest } from "./request_parts.js";
import { asked, sent, Unanswered } from "./server.js";
import { signAct } from "./signature.js";
import { followed } from "./trigger_state.js";

const DECISIONS = { approve: "Approve: sign it", reject: "Reject it for good: sign that" };

function offered(place) {
  const failed = (problem) => place.append(said("bad", `That did not work: ${problem.message}`));
  show(place, choices(button("Look at it and decide", () => look(place, failed), failed)));
}

async function look(place, failed) {
  const { request: id, digest: listed } = place.dataset;
  const found = await asked(`/v1/requests/${id}`);
  if (found.request === null) {
    show(place, said("", `It cannot be signed here. ${found.see}`));
    return;
  }
  if (listed && listed !== found.digest) throw new Error("it is not the request that this page lists; load it again");
  const whole = await wholeRequest(found.request, found.digest);
  const key = whyNoKey() ? null : await ownKey();
  const parts = [element("h3", {}, "The exact request that you sign"), whole.list];
  if (found.needs.length > 0) {
    parts.push(element("h3", {}, "Who must sign"), element("ul", {}, ...found.needs.map((need) =>
      element("li", {}, visible(need)))));
  }
  if (found.state !== "open") parts.push(said("", `It is ${found.state}: nothing is to be signed.`));
  else if (key === null) parts.push(said("", whyNoKey() || "This browser has no key. Make one on the page My key."));
  else parts.push(...decision(place, whole.request, key, found.at, failed));
  show(place, ...parts);
}

function decision(place, request, key, at, failed) {
  const reason = element("input", { maxlength: "500", autocomplete: "off", id: `reason-${request.id}` });
  const buttons = Object.entries(DECISIONS).map(([kind, words]) => {
    const once = crypto.randomUUID();
    return button(words, async () => {
      if (kind === "reject" && reason.value.trim() === "") {
        reason.focus();
        throw new Error("give a reason first, it goes into the ledger");
      }
      const act = await signAct(kind, request, key, at);
      await deliver(place, request.id, kind, { ...act, reason: reason.value.trim() }, once, failed);
    }, failed, kind === "reject" ? { class: "quiet" } : {});
  });
  const label = element("label", { for: reason.id }, "Reason, for the ledger ", reason);
  const form = element("form", { class: "choose", onsubmit: (event) => event.preventDefault() }, label);
  return [form, choices(...buttons)];
}

async function deliver(place, id, kind, body, once, failed) {
  let accepted;
  try {
    accepted = await sent(`/v1/requests/${id}/${kind}`, body, once);
  } catch (problem) {
    if (!(problem instanceof Unanswered)) throw problem;
    show(place, said("bad", `It is not known whether this arrived: ${problem.message}.`), choices(
      button("Send it again: it counts once", () => deliver(place, id, kind, body, once, failed), failed),
    ));
    return;
  }
  const state = element("div");
  show(place, state);
  await followed(state, accepted);
  const now = await asked(`/v1/requests/${id}`);
  const words = { open: "Others must sign, too.", used: "It is carried out.", rejected: "It is rejected." };
  place.append(said(now.state === "used" ? "good" : "", words[now.state] ?? `It is ${now.state}.`));
}

document.querySelectorAll("[data-request]").forEach(offered);
