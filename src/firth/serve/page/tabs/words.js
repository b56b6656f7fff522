/** Words: nearest, analogies, and a map of words typed in. */

import { analogyPicture } from "../charts/analogy_picture.js";
import { bars } from "../charts/bars.js";
import { scatter } from "../charts/scatter.js";
import { make } from "../dom.js";
import { decimal } from "../numbers.js";
import { named, python } from "../snippets.js";
import { wordList } from "../text_pieces.js";

const rowsOf = (found) => found.map(({ word, score }) => ({ label: word, value: score, shown: decimal(score) }));
const most = (found) => Math.max(1, ...found.map(({ score }) => score)); // 3CosMul has no upper end

const nearest = {
  id: "nearest",
  ability: "nearest",
  route: "/nearest",
  title: "words.nearest",
  lead: "words.nearest.lead",
  button: "words.nearest.go",
  hint: "words.nearest.hint",
  fields: [
    { name: "word", kind: "text", label: "words.word", example: "word" },
    { name: "top", kind: "number", label: "form.top", value: 10, min: 1, max: 100, more: true },
  ],
  body: ({ word, top }) => ({ word: word.trim(), top }),
  library: ({ word, top }) => `print(model.nearest(${python(word.trim())}, top=${top}))`,
  show({ found }, values, tool) {
    // A word that was found can be asked for in turn: so one walks through the space.
    const onpick = ({ label }) => {
      tool.form.set({ word: label });
      tool.run();
    };
    tool.output.append(bars(rowsOf(found), { onpick, label: "words.nearest.bars", most: most(found) }));
  },
};

const METHODS = [
  ["add", "words.method.add"],
  ["mul", "words.method.mul"],
];

const analogy = {
  id: "analogy",
  ability: "analogy",
  route: "/analogy",
  title: "words.analogy",
  lead: "words.analogy.lead",
  button: "words.analogy.go",
  hint: "words.analogy.hint",
  fields: [
    { name: "first", kind: "text", label: "words.analogy.first", example: "first" },
    { name: "second", kind: "text", label: "words.analogy.second", example: "second" },
    { name: "third", kind: "text", label: "words.analogy.third", example: "third" },
    { name: "method", kind: "choice", label: "words.method", value: "add", choices: METHODS, more: true },
    { name: "top", kind: "number", label: "form.top", value: 5, min: 1, max: 100, more: true },
  ],
  body: (values) => trimmed(values),
  library(values) {
    const { first, second, third, ...settings } = trimmed(values);
    return `print(model.analogy(${[first, second, third].map(python).join(", ")}, ${named(settings)}))`;
  },
  show({ found }, values, tool) {
    if (found.length === 0) return;
    const { first, second, third } = trimmed(values);
    const picture = make("div", { class: "picture" });
    tool.output.append(
      make("p", { class: "statement" }, `${first} → ${second}   ${third} → `, make("strong", {}, found[0].word)),
      picture,
      bars(rowsOf(found), { label: "words.analogy.bars", most: most(found) }),
    );
    if (!tool.model.abilities.includes("map")) return;
    const words = [first, second, third, found[0].word];
    tool.follow("/map", { words }, picture, ({ points }) => showPicture(words, points, picture), null);
  },
};

/** The server may give the points in another order, or a word once that was asked for twice. */
function showPicture(words, points, picture) {
  const found = words.map((word) => points.find((point) => point.word === word));
  if (found.every(Boolean)) picture.append(analogyPicture(found));
}

function trimmed(values) {
  const trim = (value) => (typeof value === "string" ? value.trim() : value);
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, trim(value)]));
}

const map = {
  id: "map",
  ability: "map",
  route: "/map",
  title: "words.map",
  lead: "words.map.lead",
  button: "words.map.go",
  hint: "words.map.hint",
  fields: [{ name: "words", kind: "area", label: "words.map.words", example: "map", rows: 5 }],
  body: ({ words }) => ({ words: wordList(words) }),
  library: ({ words }) =>
    [
      "",
      "import numpy as np",
      "",
      `units = model.encode(${python(wordList(words))})`,
      "units /= np.linalg.norm(units, axis=1, keepdims=True)",
      "units -= units.mean(0)",
      "print(units @ np.linalg.svd(units, full_matrices=False)[2][:2].T)",
    ].join("\n"),
  show({ points, missing }, values, tool) {
    const named = points.map(({ x, y, word }) => ({ x, y, label: word }));
    tool.output.append(scatter(named, { label: "words.map.picture" }));
    if (missing?.length > 0) {
      tool.output.append(make("p", { class: "note", say: ["words.missing", { words: missing.join(", ") }] }));
    }
  },
};

export const words = {
  id: "words",
  title: "tab.words",
  lead: "words.lead",
  how: "words.how",
  story: "01-word2vec",
  tools: [nearest, analogy, map],
  suits: ({ abilities }) => ["nearest", "analogy", "map"].some((one) => abilities.includes(one)),
  // Any model can map words, but those that know single words come first.
  // fastText, whose neighbours are often spelt alike, after vectors of whole words.
  rank: ({ abilities, recipe }) =>
    abilities.includes("analogy") ? (recipe?.startsWith("fasttext") ? 1 : 0) : abilities.includes("nearest") ? 2 : 3,
};
