// The page of the key of this browser: make one, hand its public half in, remove it.
import { forgetKey, makeKey, ownKey, whyNoKey } from "./browser_key.js";
import { button, choices, code, element, pairs, said, show } from "./page_parts.js";

const place = document.getElementById("own-key");
const person = place?.dataset.person || "NAME";

const failed = (problem) => place.append(said("bad", `That did not work: ${problem.message}`));

function noKey() {
  show(
    place,
    said("", "This browser has no key."),
    choices(button("Make a key", async () => aKey(await makeKey()), failed)),
  );
}

function aKey(key) {
  const typed = `kfm keys new --person ${person} --role ROLE --public ${key.public} --key ADMIN.key`;
  show(
    place,
    said("good", "This browser has a key. Pages of this server can sign with it when you say so."),
    pairs([["Id", code(key.id)], ["Public half", code(key.public)]]),
    element("p", {}, "An admin puts it on the key list with:"),
    element("pre", { tabindex: "0" }, code(typed)),
    choices(button("Remove this key", () => removing(key), failed, { class: "quiet" })),
  );
}

function removing(key) {
  show(
    place,
    said("bad", "There is no copy of this key. Once it is removed, nobody can sign with it again."),
    pairs([["Id", code(key.id)]]),
    choices(
      button("Keep it", () => aKey(key), failed),
      button("Remove it for good", async () => { await forgetKey(); noKey(); }, failed, { class: "quiet" }),
    ),
  );
}

if (place !== null) {
  const why = whyNoKey();
  if (why) show(place, said("bad", `No key can be made here: ${why}.`));
  else {
    const key = await ownKey().catch(() => undefined);
    if (key === undefined) show(place, said("bad", "This browser lets no page keep a key, as in a private window."));
    else if (key === null) noKey();
    else aKey(key);
  }
}
