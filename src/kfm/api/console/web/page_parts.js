// Parts of a page that scripts make. Text stays text: nothing here reads HTML.

/** An element with these attributes and children. A listener is an attribute that begins with "on". */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== "" && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Names with their values. One without a value is left out. */
export function pairs(found) {
  const shown = found.filter(([, value]) => value !== "");
  return element("dl", { class: "pairs" }, ...shown.flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, value),
  ]));
}

export const code = (text) => element("code", {}, text);

/** A button. While its work goes on it does nothing more, and keeps the keyboard; what fails is told by `failed`. */
export function button(words, work, failed, attributes = {}) {
  const made = element("button", { type: "button", ...attributes, onclick: async () => {
    if (made.ariaDisabled === "true") return;
    made.ariaDisabled = "true";
    try {
      await work();
    } catch (problem) {
      failed(problem);
    } finally {
      made.ariaDisabled = "false";
    }
  } }, words);
  return made;
}

/** Buttons next to each other. */
export const choices = (...buttons) => element("p", { class: "choices" }, ...buttons);

/** A sentence with its color: good, bad or none. */
export const said = (kind, ...children) => element("p", { class: kind ? `check ${kind}` : "check" }, ...children);

/** Show these children in a place, and nothing else. The keyboard stays where the page changes. */
export function show(place, ...children) {
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren(...children);
  if (hadFocus) {
    place.tabIndex = -1;
    place.focus();
  }
}
