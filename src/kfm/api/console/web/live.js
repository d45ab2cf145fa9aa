// Follows the events of the server and shows the page again when something has happened. The page reads well without it.
const live = document.getElementById("live");
const news = document.getElementById("news");

async function again() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  if (fresh === null || live.contains(document.activeElement)) return;
  live.replaceChildren(...fresh.childNodes);
}

function tell(event) {
  const said = JSON.parse(event.data);
  const words = { entry: "ended", begun: "began", freeze: "was frozen", thaw: "was thawed" }[said.event];
  news.textContent = `${said.op || said.dataset} ${said.op ? `of ${said.dataset} ` : ""}${words}`;
  clearTimeout(tell.waiting);
  tell.waiting = setTimeout(() => again().catch(() => {}), 300);
}

if (live !== null) {
  const source = new EventSource(live.dataset.events);
  for (const name of ["entry", "begun", "freeze", "thaw"]) source.addEventListener(name, tell);
  addEventListener("pagehide", () => source.close());
}
