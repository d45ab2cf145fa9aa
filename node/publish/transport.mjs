/**
 * HTTP for publishers: to the one place that is configured, without redirects, proxies or patience without end.
 * Twin of src/kfm/publish/transport.py.
 */

import http from "node:http";
import https from "node:https";

import { KfmError, Unavailable } from "../errors.mjs";

const TIMEOUT_MS = 60_000; // between two bytes
const MOST = 16 << 20; // bytes of an answer

export class HttpTransport {
  async call(method, url, headers, body) {
    const { hostname } = new URL(url);
    try {
      return await exchange(method, url, headers, body);
    } catch (problem) {
      if (problem instanceof KfmError) throw problem;
      throw new Unavailable(`${hostname} does not answer (${problem.code ?? problem.name})`, {
        hint: "what was committed is kept; `kfm resume` publishes it later",
        cause: problem,
      });
    }
  }
}

function exchange(method, url, headers, body) {
  return new Promise((resolve, reject) => {
    const client = url.startsWith("https:") ? https : http;
    const request = client.request(url, { method, headers, agent: false, timeout: TIMEOUT_MS }, (answer) => {
      const parts = [];
      let size = 0;
      answer.on("data", (part) => {
        size += part.length;
        if (size > MOST) {
          request.destroy();
          reject(new Unavailable(`${new URL(url).hostname} answers with more than 16 MiB`, { hint: "`kfm resume` tries again" }));
        }
        parts.push(part);
      });
      answer.on("end", () => resolve([answer.statusCode, answer.headers, Buffer.concat(parts)]));
      answer.on("error", reject);
      answer.on("aborted", () => reject(Object.assign(new Error("aborted"), { code: "ECONNRESET" })));
    });
    request.on("timeout", () => request.destroy(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" })));
    request.on("error", reject);
    send(request, body).catch((problem) => {
      request.destroy(problem);
      reject(problem);
    });
  });
}

async function send(request, body) {
  if (body === null || Buffer.isBuffer(body)) {
    request.end(body ?? undefined);
    return;
  }
  for (const chunk of body) {
    if (!request.write(chunk) && !request.destroyed) {
      await new Promise((resolve) => {
        request.once("drain", resolve);
        request.once("close", resolve);
      });
    }
    if (request.destroyed) return;
  }
  request.end();
}
