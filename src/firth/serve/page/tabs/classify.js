/** Classify: the labels of a text or a pair of texts with their probabilities, or a score. */

import { bars } from "../charts/bars.js";
import { make } from "../dom.js";
import { decimal, percent, short } from "../numbers.js";
import { python } from "../snippets.js";
import { confusionOf } from "./confusion.js";
import { scoreTable } from "./score_table.js";

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

/** Words in colour: what speaks for the label, and what against it. */
function showExplanation({ label, words, agreement }, { text, second }, into) {
  const value = ({ occlusion, gradient }) => occlusion ?? gradient ?? 0;
  const most = Math.max(0.1, ...words.map((word) => Math.abs(value(word))));
  const read = (source, some) => {
    const characters = Array.from(source);
    let at = 0;
    const found = some.flatMap((word) => {
      const kind = value(word) < 0 ? "adds against" : "adds";
      const share = Math.abs(value(word)) / most;
      const shown = decimal(value(word), 3);
      const mark = make("mark", { class: kind, title: shown, variables: { "--share": share.toFixed(3) } }, word.text);
      const before = characters.slice(at, word.start).join("");
      at = word.end;
      return [before, mark];
    });
    return make("p", { class: "reading" }, ...found, characters.slice(at).join(""));
  };
  const rows = [...words].sort((one, other) => Math.abs(value(other)) - Math.abs(value(one))).slice(0, 6);
  into.append(
    make("h3", { say: label === null ? "explain.score" : ["explain.title", { label }] }),
    read(text, words.filter((word) => !word.second)),
    ...(second && words.some((word) => word.second) ? [read(second, words.filter((word) => word.second))] : []),
    make("p", { class: "note" }, rows.map((word) => `${word.text} ${value(word) < 0 ? "" : "+"}${decimal(value(word), 3)}`).join(" · ")),
    make("p", { class: "note", say: ["explain.how", { most: decimal(most, 3) }] }),
    ...(agreement !== null && agreement < 0.3 ? [make("p", { class: "note", say: "explain.doubt" })] : []),
  );
}

function showClass(answer, values, tool) {
  showPrediction(answer, values, tool);
  const into = make("div", { class: "part" });
  const body = { text: values.text, second: tool.model.pair ? values.second : null };
  tool.follow("/explain", body, into, (found) => showExplanation(found, values, into), null);
  return into;
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
  show: showClass,
};

export const classify = {
  id: "classify",
  title: "tab.classify",
  lead: "classify.lead",
  how: "classify.how",
  guide: "tasks",
  story: "08-bert",
  task: true,
  tools: [go],
  below(model, [tool]) {
    const onpick = ({ text, second }) => {
      tool.form.set({ text, second: second ?? "" });
      tool.run();
      tool.element.scrollIntoView({ block: "start" });
    };
    return [confusionOf(model, onpick), !model.pair && scoreTable(model)];
  },
  suits: ({ abilities, task, images }) =>
    !images && abilities.includes("predict") && ["classify", "score"].includes(task),
};
