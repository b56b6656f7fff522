/** Tokens: how a model cuts a text, what it does not know, and what cannot be got back. */

import { make } from "../dom.js";
import { python } from "../snippets.js";
import { bareToken } from "../text_pieces.js";

const COLUMNS = ["tokens.token", "tokens.id", "tokens.place", "tokens.word"];

/** Every token in the colour of its word; what is unknown stands as it was written. */
function tokenMarks(tokens) {
  return tokens.flatMap((token, place) => {
    const kind = token.unknown ? "kind unknown" : `kind c${token.word % 8}`;
    const shown = token.unknown ? token.text : bareToken(token.token);
    const gap = place > 0 && token.word !== tokens[place - 1].word ? " " : "";
    return [gap, make("mark", { class: kind }, shown, token.unknown && make("small", {}, "?"))];
  });
}

function tokenTable(tokens, words) {
  const number = (text) => make("td", { class: "number" }, text);
  const row = ({ token, id, start, end, word, unknown }) =>
    make(
      "tr",
      {},
      make("td", {}, token),
      number(id === null ? "" : String(id)),
      number(`${start}–${end}`),
      make("td", unknown ? { say: "tokens.unknown" } : {}, unknown ? undefined : words[word]),
    );
  const head = make("tr", {}, COLUMNS.map((key) => make("th", { scope: "col", say: key })));
  return make("div", { class: "scrolls" }, make("table", {}, make("thead", {}, head), make("tbody", {}, tokens.map(row))));
}

function showTokens({ tokens, words, unknown, lost, back }, values, tool) {
  const counts = { tokens: tokens.length, words: words.length, unknown, lost };
  tool.output.append(
    make("p", { class: "reading" }, ...tokenMarks(tokens)),
    make("p", { class: "note", say: ["tokens.counts", counts] }),
    ...(lost > 0 ? [make("p", { class: "note", say: ["tokens.back", { back }] })] : []),
    tokenTable(tokens, words),
  );
}

const go = {
  id: "tokens",
  ability: "tokens",
  route: "/tokens",
  button: "tokens.go",
  hint: "tokens.hint",
  fields: [{ name: "text", kind: "area", label: "tokens.text", example: "attention", rows: 3 }],
  body: ({ text }) => ({ text }),
  library: ({ text }, model) => `print(firth.tokens(${python(model.name)}, ${python(text)}))`,
  show: showTokens,
};

export const tokens = {
  id: "tokens",
  title: "tab.tokens",
  lead: "tokens.lead",
  how: "tokens.how",
  story: "08-bert",
  tools: [go],
  suits: ({ abilities }) => abilities.includes("tokens"),
};
