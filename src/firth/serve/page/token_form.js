/** The token that a server may want: asked for on the page, kept until the browser's tab is closed. */

import { freshId, make } from "./dom.js";

let waiting = null;

/** A promise of a token; requests that wait at the same time share one form. */
export function askForToken(refused) {
  waiting ??= showForm(refused).finally(() => (waiting = null));
  return waiting;
}

function showForm(refused) {
  const id = freshId("token");
  const input = make("input", { id, type: "password", autocomplete: "off", required: true });
  return new Promise((resolve) => {
    const form = make(
      "form",
      { class: "notice token" },
      make("label", { for: id, say: refused ? "token.refused" : "token.wanted" }),
      make("div", { class: "together" }, input, make("button", { class: "main", say: "token.use" })),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.remove();
      resolve(input.value.trim());
    });
    document.getElementById("notices").append(form);
    input.focus();
  });
}
