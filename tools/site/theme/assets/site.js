/* The theme writes more into a page when it starts. A table that is wider than the screen scrolls, and a keyboard must
   reach it; the buttons of a block of code are no part of the navigation. */
const reach = () => {
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((wrap) => {
    if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0;
    else wrap.removeAttribute("tabindex");
  });
  document.querySelectorAll("nav.md-code__nav").forEach((nav) => {
    const buttons = document.createElement("div");
    buttons.className = nav.className;
    buttons.append(...nav.childNodes);
    nav.replaceWith(buttons);
  });
};
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", reach);
addEventListener("load", reach);
