/** Asks the server. Addresses are relative to the page, so that it also works behind a prefix. */

import { t } from "./i18n.js";
import { keep, recall } from "./storage.js";

const TOKEN = "firth-token";
let askForToken = null;

/** What went wrong, in one sentence that can be shown as it is. */
class ServerError extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** `ask(refused)` must give a promise of a token; `refused` says whether one was turned down. */
export const onTokenWanted = (ask) => (askForToken = ask);

export const hasToken = () => recall(TOKEN, "sessionStorage") !== null;
export const addressOf = (route) => new URL(route.replace(/^\//, ""), document.baseURI).href;

function headers(body) {
  const found = {};
  if (body !== undefined) found["Content-Type"] = body instanceof Blob ? body.type : "application/json";
  const token = recall(TOKEN, "sessionStorage");
  if (token !== null) found.Authorization = `Bearer ${token}`;
  return found;
}

async function send(route, body, signal) {
  try {
    return await fetch(addressOf(route), {
      method: body === undefined ? "GET" : "POST",
      headers: headers(body),
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(t("error.unreachable"), 0);
  }
}

/** The token was wanted: asks for one and tries again until it is taken. */
async function sendWithToken(route, body, signal) {
  let response = await send(route, body, signal);
  while (response.status === 401 && askForToken !== null) {
    keep(TOKEN, await askForToken(hasToken()), "sessionStorage");
    response = await send(route, body, signal);
  }
  return response;
}

async function sentence(response) {
  try {
    const found = await response.json();
    if (typeof found.error === "string") return found.error;
  } catch {
    // no JSON: something other than Firth answered
  }
  return t("error.status", { status: response.status });
}

/** The raw response of a GET or, with a body (plain data, or a file as it is), a POST. */
export async function request(route, body, signal) {
  const response = await sendWithToken(route, body, signal);
  if (!response.ok) throw new ServerError(await sentence(response), response.status);
  return response;
}

/** An answer that comes in parts, a line of JSON each: `onpart` hears of each, the last is the whole answer. */
export async function askInParts(route, body, signal, onpart) {
  const response = await request(route, { ...body, stream: true }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let [rest, last] = ["", null];
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      last = JSON.parse(line);
      if (last.error) throw new ServerError(last.error, 422);
      if (!last.done) onpart(last);
    }
    if (done) break;
  }
  if (!last?.done) throw new ServerError(t("error.unreachable"), 0);
  return last;
}

/** The answer as plain data. */
export async function ask(route, body, signal) {
  const response = await request(route, body, signal);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(t("error.status", { status: response.status }), response.status);
  }
}
