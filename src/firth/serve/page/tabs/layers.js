/** Layers: what a word in its sentence is near to, from layer to layer; and how much a task takes from each layer of its base
 *  (the scalar mix of ELMo, Peters et al. 2018). */

import { bars } from "../charts/bars.js";
import { markOne } from "../charts/marked_text.js";
import { make } from "../dom.js";
import { heading } from "../heading.js";
import { knows } from "../i18n.js";
import { kindName } from "../names.js";
import { decimal, percent } from "../numbers.js";
import { python } from "../snippets.js";
import { buildToolTab } from "../tool_tab.js";

const nameOf = (layer) => (layer === 0 ? ["layers.tokens"] : ["layers.layer", { layer }]);

function neighbour({ word, score, sentence, start, end }) {
  return make(
    "li",
    {},
    make(
      "details",
      {},
      make("summary", {}, make("span", { class: "near-word" }, word), make("span", { class: "bar-value" }, decimal(score, 2))),
      make("p", { class: "note" }, ...markOne(sentence, start, end)),
    ),
  );
}

const near = {
  id: "near",
  ability: "occurrences",
  route: "/neighbours",
  title: "layers.near",
  lead: "layers.near.lead",
  button: "layers.near.go",
  hint: "layers.near.hint",
  fields: [
    { name: "sentence", kind: "area", label: "layers.sentence", example: "layersSentence" },
    { name: "word", kind: "text", label: "words.word", example: "layersWord" },
    { name: "top", kind: "number", label: "form.top", value: 5, min: 1, max: 20, more: true },
  ],
  body: ({ sentence, word, top }) => ({ sentence, word: word.trim(), top }),
  library: ({ sentence, word }) =>
    [
      `found = model.layers(${python(sentence)})  # of ${python(word.trim())}: one row per layer and token`,
      "print(found.tokens, found.hidden.shape)",
    ].join("\n"),
  show({ layers: found }, values, tool) {
    const column = (some, layer) =>
      make("section", { class: "layer" }, make("h3", { say: nameOf(layer) }), make("ol", {}, some.map(neighbour)));
    tool.output.append(make("div", { class: "layer-columns" }, found.map(column)));
  },
};

/** A task may mix the layers in more than one place: below and above its own body. */
const mixesOf = ({ mixes, layer_weights: only }) => mixes ?? (only ? [only] : []);

function showMix({ place, weights, scale }) {
  const rows = weights.map((value, layer) => ({ say: nameOf(layer), value, shown: percent(value) }));
  const facts = [make("span", { say: ["layers.place", { place: knows(`layers.place.${place}`) ? `@layers.place.${place}` : place }] }), make("span", {}, `γ ${decimal(scale)}`)];
  return [make("p", { class: "facts" }, facts), bars(rows, { label: "layers.bars", even: true })];
}

const showModel = (model) =>
  make(
    "section",
    { class: "card" },
    make("h3", {}, model.name),
    make("p", { class: "facts", say: kindName(model.kind) }),
    mixesOf(model).flatMap(showMix),
  );

const reads = ({ abilities }) => abilities.includes("occurrences");

export const layers = {
  id: "layers",
  title: "tab.layers",
  lead: "layers.lead",
  how: "layers.how",
  guide: "probing",
  story: "05-elmo",
  tools: [near],
  suits: (model) => reads(model) || mixesOf(model).length > 0,
  rank: ({ abilities, task }) => (task || abilities.includes("generate") ? 1 : 0),
  build(panel, models, remember) {
    const asked = models.filter(reads);
    const open =
      asked.length > 0 ? buildToolTab({ ...layers, suits: reads }, panel, models, remember) : emptyTab(panel);
    const mixed = models.filter((model) => mixesOf(model).length > 0);
    if (mixed.length > 0) {
      panel.append(
        make("section", { class: "below" }, make("h2", { say: "layers.mix" }), make("p", { class: "lead", say: "layers.mix.lead" })),
        make("div", { class: "cards" }, mixed.map(showModel)),
      );
    }
    return open;
  },
};

function emptyTab(panel) {
  panel.replaceChildren(make("header", { class: "head" }, heading(layers)));
  return () => {};
}
