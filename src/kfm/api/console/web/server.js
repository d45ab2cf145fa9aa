// Questions to this server, and changes: each carries the token of the page and a key, so that it counts once.

const csrf = () => document.querySelector('meta[name="kfm-csrf"]')?.content ?? "";

/** The server said no, and why. */
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
  }
}

/** Nobody knows whether the server has what was sent. The same thing sent again counts once. */
export class Unanswered extends Error {
  constructor() {
    super("the server did not answer, and may have it or not");
  }
}

async function answered(address, how) {
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", credentials: "same-origin", ...how });
  } catch {
    throw new Unanswered();
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

export const asked = (address) => answered(address, { headers: { accept: "application/json" } });

/** Send a change. A dry run changes nothing, and takes a key like any other. */
export function sent(address, body, key = crypto.randomUUID()) {
  const headers = { "content-type": "application/json", "kfm-csrf": csrf(), "idempotency-key": key };
  return answered(address, { method: "POST", headers, body: JSON.stringify(body) });
}
