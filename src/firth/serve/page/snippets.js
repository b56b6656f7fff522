/** The same question outside the page: with the library, by HTTP from Python, and by curl. */

import { addressOf, hasToken } from "./api.js";
import { make } from "./dom.js";
import { say } from "./i18n.js";

/** A value as Python writes it. */
export function python(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([name, one]) => `${python(name)}: ${python(one)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value); // strings and numbers are written alike
}

/** Arguments by name: top=5, beams=4. */
export const named = (values) =>
  Object.entries(values)
    .map(([name, value]) => `${name}=${python(value)}`)
    .join(", ");

const withLibrary = (model, lines) => `import firth\n\nmodel = firth.load(${python(model)})\n${lines}\n`;

/** A file is sent as it is. */
const sent = (body) =>
  body instanceof Blob ? `open(${python(body.name)}, "rb").read()` : `json.dumps(${python(body)}).encode()`;

const typeOf = (body) => (body instanceof Blob ? body.type : "application/json");

function withHttp(route, body) {
  const given = body === undefined ? "" : `, ${sent(body)}`;
  const headers = {};
  const lines = ["import json", ...(hasToken() ? ["import os"] : [])];
  lines.push("from urllib.request import Request, urlopen", "");
  if (body !== undefined) headers["Content-Type"] = typeOf(body);
  lines.push(`request = Request(${python(addressOf(route))}${given}, headers=${python(headers)})`);
  // The token itself is never written out: what is copied gets pasted anywhere.
  if (hasToken()) lines.push(`request.add_header("Authorization", "Bearer " + os.environ["FIRTH_TOKEN"])`);
  return `${lines.join("\n")}\nprint(json.load(urlopen(request)))\n`;
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function withCurl(route, body) {
  const parts = [`curl ${quoted(addressOf(route))}`];
  if (hasToken()) parts.push(`-H "Authorization: Bearer $FIRTH_TOKEN"`);
  if (body !== undefined) {
    const data = body instanceof Blob ? `--data-binary ${quoted(`@${body.name}`)}` : `-d ${quoted(JSON.stringify(body))}`;
    parts.push(`-H 'Content-Type: ${typeOf(body)}'`, data);
  }
  return `${parts.join(" \\\n  ")}\n`;
}

/** Buttons that copy, and the code so that it can be read; `library` are lines that use `model`. */
export function copyBar(route, body, library) {
  const model = body instanceof Blob ? new URL(addressOf(route)).searchParams.get("model") : body?.model;
  const ways = [
    ...(library ? [["Python", () => withLibrary(model, library)]] : []),
    ["Python, HTTP", () => withHttp(route, body)],
    ["curl", () => withCurl(route, body)],
  ];
  const code = make("pre", { class: "code", tabindex: "0", hidden: true });
  const note = make("span", { class: "copied", "aria-live": "polite" });
  const buttons = ways.map(([name, write]) => {
    const onclick = (event) => show(event.target, write());
    return make("button", { type: "button", class: "plain", "aria-pressed": "false", onclick }, name);
  });

  async function show(button, text) {
    const again = button.getAttribute("aria-pressed") === "true";
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === button && !again));
    code.hidden = again;
    note.textContent = "";
    if (again) return;
    code.textContent = text;
    say(note, (await copy(text, code)) ? "copy.done" : "copy.select");
  }

  return make("footer", { class: "copy" }, make("span", { say: "copy.as" }), buttons, note, code);
}

/** Browsers give the clipboard to safe addresses only; elsewhere the text is selected for the reader. */
async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return false;
  }
}
