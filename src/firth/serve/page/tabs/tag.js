/** Tag: names and other kinds of words in colour, with their places in the text. */

import { markKinds } from "../charts/marked_text.js";
import { make } from "../dom.js";
import { percent } from "../numbers.js";
import { python } from "../snippets.js";
import { entitiesOf } from "./entities.js";

const COLUMNS = ["tag.text", "tag.kind", "tag.place", "tag.sure"];

function entityTable(entities) {
  const number = (text) => make("td", { class: "number" }, text);
  const row = ({ text, type, start, end, probability }) =>
    make(
      "tr",
      {},
      make("td", {}, text),
      make("td", {}, type),
      number(`${start}–${end}`),
      number(probability === undefined ? "" : percent(probability)),
    );
  const head = make("tr", {}, COLUMNS.map((key) => make("th", { scope: "col", say: key })));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, entities.map(row)));
  return make("div", { class: "scrolls" }, table);
}

/** Kinds keep their colours from text to text: they are in the order of the model's labels. */
function kindsOf(labels, found) {
  const bare = labels.map((label) => label.replace(/^[BIOESMLU]-/, "")).filter((label) => label !== "O");
  return [...new Set([...bare, ...found])];
}

function showTags({ predictions: [found] }, { text }, tool) {
  if (found.entities === undefined) {
    showEveryWord(found, tool);
    return;
  }
  const spans = found.entities.map(({ start, end, type }) => ({ start, end, kind: type }));
  const kinds = kindsOf(tool.model.labels ?? [], spans.map(({ kind }) => kind));
  const nothing = make("p", { class: "note", say: "tag.nothing" });
  tool.output.append(
    make("p", { class: "reading" }, ...markKinds(text, spans, kinds)),
    spans.length === 0 ? nothing : entityTable(found.entities),
  );
}

/** A scheme without spans, such as parts of speech: every word has a tag. */
function showEveryWord({ words, tags }, tool) {
  const kinds = kindsOf(tool.model.labels ?? [], tags);
  const parts = words.flatMap((word, place) => [
    make("mark", { class: `kind c${kinds.indexOf(tags[place]) % 8}` }, word, make("small", {}, tags[place])),
    " ",
  ]);
  tool.output.append(make("p", { class: "reading" }, ...parts));
}

const go = {
  id: "tag",
  ability: "predict",
  route: "/predict",
  button: "tag.go",
  hint: "tag.hint",
  fields: [{ name: "text", kind: "area", label: "tag.input", example: "tag", rows: 4 }],
  body: ({ text }) => ({ texts: [text] }),
  library: ({ text }) => `print(model.predict([${python(text)}]))`,
  show: showTags,
};

export const tag = {
  id: "tag",
  title: "tab.tag",
  lead: "tag.lead",
  how: "tag.how",
  guide: "tasks",
  story: "08-bert",
  task: true,
  tools: [go],
  below: (model) => [entitiesOf(model)],
  suits: ({ abilities, task }) => abilities.includes("predict") && task === "tag",
};
