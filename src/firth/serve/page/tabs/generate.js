/** Generate: a text goes on, drawn or by beam search; the beam's tree shows what was weighed. */

import { beamTree } from "../charts/beam_tree.js";
import { freshId, make } from "../dom.js";
import { decimal } from "../numbers.js";
import { named, python } from "../snippets.js";

const SETTINGS = ["max_tokens", "num", "beams", "temperature", "top_k", "top_p", "seed", "no_repeat_ngram"];
/** As many continuations as are asked for need as many beams, if there are beams. */
const settingsOf = (values) => {
  const beams = values.beams > 0 ? Math.max(values.beams, values.num) : 0;
  return { ...Object.fromEntries(SETTINGS.map((name) => [name, values[name]])), beams };
};

function showTexts(continuations, prompt) {
  return make(
    "ol",
    { class: "texts" },
    continuations.map(({ text, score }) => {
      // What was given stands back, what the model added stands out.
      const [given, added] = text.startsWith(prompt) ? [prompt, text.slice(prompt.length)] : ["", text];
      return make(
        "li",
        {},
        make("p", {}, make("span", { class: "given" }, given), make("span", { class: "added" }, added)),
        added.trim() === "" && make("p", { class: "note", say: "generate.nothing" }),
        make("span", { class: "note", say: ["generate.score", { score: decimal(score, 2) }] }),
      );
    }),
  );
}

/** What is written so far: of a beam the best, of drawn texts all. */
const showWriting = (partial, prompt) =>
  make(
    "ol",
    { class: "texts" },
    Object.values(partial).map((added) =>
      make(
        "li",
        {},
        make(
          "p",
          {},
          make("span", { class: "given" }, prompt),
          make("span", { class: "added" }, added),
          make("span", { class: "caret", "aria-hidden": "true" }),
        ),
      ),
    ),
  );

function showTree(trace, continuations, prompt) {
  const nodes = (Array.isArray(trace) ? trace[0] : trace).nodes;
  const place = make("div", {});
  const id = freshId("dropped");
  const box = make("input", { id, type: "checkbox", onchange: () => redraw() });
  const redraw = () => {
    const looks = { dropped: box.checked, label: "generate.tree" };
    place.replaceChildren(beamTree(nodes, prompt, continuations[0].score, looks));
  };
  redraw();
  return make(
    "div",
    { class: "part" },
    make("h3", { say: "generate.tree" }),
    make("p", { class: "note", say: "generate.tree.how" }),
    make("p", { class: "field check" }, box, make("label", { for: id, say: "generate.dropped" })),
    place,
  );
}

const go = {
  id: "continue",
  ability: "generate",
  route: "/generate",
  button: "generate.go",
  slow: true,
  partly: ({ partial }, { text }, tool) => tool.output.replaceChildren(showWriting(partial, text)),
  hint: "generate.hint",
  fields: [
    { name: "text", kind: "area", label: "generate.text", example: "generate" },
    { name: "max_tokens", kind: "number", label: "generate.max_tokens", value: 20, min: 1, max: 256 },
    { name: "beams", kind: "number", label: "generate.beams", value: 3, min: 0, max: 16 },
    { name: "num", kind: "number", label: "generate.num", value: 3, min: 1, max: 16 },
    { name: "temperature", kind: "number", label: "generate.temperature", value: 1, min: 0, step: 0.1, more: true },
    { name: "top_k", kind: "number", label: "generate.top_k", value: 0, min: 0, more: true },
    { name: "top_p", kind: "number", label: "generate.top_p", value: 1, min: 0.05, max: 1, step: 0.05, more: true },
    { name: "no_repeat_ngram", kind: "number", label: "generate.no_repeat", value: 0, min: 0, more: true },
    { name: "seed", kind: "number", label: "generate.seed", value: 0, min: 0, more: true },
  ],
  body: (values) => ({ text: values.text, ...settingsOf(values), trace: values.beams > 0 }),
  library: (values) =>
    [
      `for found in model.generate(${python(values.text)}, ${named(settingsOf(values))}):`,
      "    print(found.score, found.text)",
    ].join("\n"),
  show({ continuations, trace }, { text }, tool) {
    tool.output.append(showTexts(continuations, text));
    if (trace && continuations.length > 0) tool.output.append(showTree(trace, continuations, text));
  },
};

export const generate = {
  id: "generate",
  title: "tab.generate",
  lead: "generate.lead",
  how: "generate.how",
  story: "09-gpt",
  tools: [go],
  suits: ({ abilities }) => abilities.includes("generate"),
};
