/** Classify: the labels of a text or a pair of texts with their probabilities, or a score. */

import { bars } from "../charts/bars.js";
import { make } from "../dom.js";
import { percent, short } from "../numbers.js";
import { python } from "../snippets.js";

const body = ({ text, second }, model) => (model.pair ? { pairs: [{ text, second }] } : { texts: [text] });

export function showPrediction({ predictions: [found] }, values, tool) {
  if (found.probabilities === undefined) {
    const score = make("strong", {}, short(found.score));
    tool.output.append(make("p", { class: "statement" }, make("span", { say: "classify.score" }), " ", score));
    return;
  }
  const rows = Object.entries(found.probabilities).map(([label, value]) => ({ label, value, shown: percent(value) }));
  rows.sort((one, other) => other.value - one.value);
  tool.output.append(
    make("p", { class: "statement" }, make("strong", {}, found.labels ? found.labels.join(", ") || "–" : found.label)),
    bars(rows, { label: "classify.labels" }),
  );
}

/** What the library reads: a text, or two in a tuple. */
const given = ({ text, second }, model) => (model.pair ? `(${python(text)}, ${python(second)})` : python(text));

const go = {
  id: "classify",
  ability: "predict",
  route: "/predict",
  button: "classify.go",
  hint: "classify.hint",
  fields: [
    { name: "text", kind: "area", label: "classify.text", example: "classify" },
    { name: "second", kind: "area", label: "classify.second", example: "classifySecond", when: (model) => model.pair },
  ],
  body,
  library: (values, model) => `print(model.predict([${given(values, model)}]))`,
  show: showPrediction,
};

export const classify = {
  id: "classify",
  title: "tab.classify",
  lead: "classify.lead",
  task: true,
  tools: [go],
  suits: ({ abilities, task, images }) =>
    !images && abilities.includes("predict") && ["classify", "score"].includes(task),
};
