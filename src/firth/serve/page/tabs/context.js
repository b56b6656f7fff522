/** Context: the same word in several sentences as points; where a corpus uses it in a like way. */

import { cosineLegend, heatMap, strength } from "../charts/heat_map.js";
import { markOne } from "../charts/marked_text.js";
import { scatter } from "../charts/scatter.js";
import { freshId, make } from "../dom.js";
import { say } from "../i18n.js";
import { decimal } from "../numbers.js";
import { python } from "../snippets.js";
import { lines } from "../text_pieces.js";
import { errorNote } from "../tool.js";

const LAYER = { name: "layer", kind: "number", label: "form.layer", value: -1, min: -100, max: 100, more: true };

/** Cosines are all large in many models: what counts is which are larger, so colours begin at the least. */
const least = (similarity) => Math.min(0.95, ...similarity.flat());

/** Sentences with their numbers; where the run's corpus is at hand, each with a button for similar occurrences. */
function sentenceList(points, onpick) {
  const button = (point) =>
    make("button", { type: "button", class: "plain", say: "context.similar", onclick: () => onpick(point) });
  const line = (point) =>
    make("li", {}, make("span", {}, ...markOne(point.text, point.start, point.end)), onpick && button(point));
  return make("ol", { class: "sentences" }, points.map(line));
}

function showOccurrences(found, into) {
  into.append(make("h3", { say: "context.occurrences" }));
  if (found.length === 0) into.append(make("p", { class: "note", say: "context.nothing" }));
  const line = ({ sentence, start, end, score }) => {
    const value = make("span", { class: "bar-value" }, decimal(score));
    return make("li", {}, value, make("span", {}, ...markOne(sentence, start, end)));
  };
  into.append(make("ol", { class: "occurrences" }, found.map(line)));
}

/** The points and the table of cosines in one layer. */
function drawLayer({ points, similarity }, names, onpoint) {
  const dots = points.map(({ x, y, text }, number) => ({ x, y, label: names[number], title: text }));
  const share = strength(1, least(similarity));
  const cells = { label: "context.similarity", share, numbers: true, biggest: 46 };
  return [
    make("div", {}, make("h3", { say: "context.map" }), scatter(dots, { label: "context.map", onpoint })),
    make(
      "div",
      {},
      make("h3", { say: "context.similarity" }),
      cosineLegend(least(similarity)),
      heatMap(similarity, names, names, cells),
    ),
  ];
}

/** A slider over the layers: how senses part from layer to layer. */
function layerSlider(tool, values, draw) {
  const { layers } = tool.model;
  if (!layers) return null;
  const id = freshId("layer");
  const at = values.layer < 0 ? Math.max(0, layers + 1 + values.layer) : values.layer;
  const said = make("output", { for: id, class: "note" });
  const name = (layer) => say(said, layer === 0 ? "layers.tokens" : "layers.layer", { layer });
  const onchange = async ({ target }) => {
    const layer = Number(target.value);
    name(layer);
    try {
      draw(await tool.further("/context", { ...compare.body(values), layer }));
    } catch (error) {
      if (error.name !== "AbortError") said.replaceChildren(errorNote(error));
    }
  };
  name(at);
  const range = make("input", { id, type: "range", min: 0, max: layers, step: 1, value: at, onchange });
  return make("div", { class: "field slider" }, make("label", { for: id, say: "context.layer" }), range, said);
}

function showContext(answer, values, tool) {
  const { points } = answer;
  const { layer } = values;
  const names = points.map((_, number) => String(number + 1));
  const more = make("div", { class: "part" });
  const findSimilar = ({ text, word }) => {
    const body = { sentence: text, word, top: 10, layer };
    return tool.follow("/occurrences", body, more, ({ found }) => showOccurrences(found, more));
  };
  const list = sentenceList(points, tool.model.abilities.includes("occurrences") ? findSimilar : null);
  const onpoint = (number) => {
    [...list.children].forEach((item, place) => item.classList.toggle("linked", place === number));
  };
  const place = make("div", { class: "side-by-side" });
  const draw = (found) => place.replaceChildren(...drawLayer(found, names, onpoint));
  draw(answer);
  tool.output.append(...[layerSlider(tool, values, draw), place, list].filter(Boolean));
  return more;
}

const compare = {
  id: "compare",
  ability: "context",
  route: "/context",
  button: "context.go",
  hint: "context.hint",
  fields: [
    { name: "word", kind: "text", label: "words.word", example: "contextWord" },
    { name: "sentences", kind: "area", label: "context.sentences", example: "contextSentences", rows: 7 },
    LAYER,
  ],
  body: ({ word, sentences, layer }) => ({
    sentences: lines(sentences).map((text) => ({ text, word: word.trim() })),
    layer,
  }),
  library: ({ sentences }) =>
    [
      `for text in ${python(lines(sentences))}:`,
      "    found = model.layers(text)",
      "    print(found.tokens, found.hidden.shape)",
    ].join("\n"),
  show: showContext,
};

export const context = {
  id: "context",
  title: "tab.context",
  lead: "context.lead",
  how: "context.how",
  story: "05-elmo",
  tools: [compare],
  suits: ({ abilities }) => abilities.includes("context"),
  // Static vectors give a word the same vector everywhere: to be compared with, not to begin with.
  rank: ({ abilities, task, languages }) => (task || languages?.length ? 1 : 0) + (abilities.includes("nearest") ? 2 : 0),
};
