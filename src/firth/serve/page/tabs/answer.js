/** Answer: a question about a passage; the answer is marked where it stands. */

import { bars } from "../charts/bars.js";
import { markOne } from "../charts/marked_text.js";
import { make } from "../dom.js";
import { percent } from "../numbers.js";
import { python } from "../snippets.js";

const MOST = 6;

function showAnswer({ predictions: [found] }, { passage }, tool) {
  const read = make("p", { class: "reading" });
  const mark = ({ answer, start, end }) =>
    read.replaceChildren(...(answer === "" ? [passage] : markOne(passage, start, end)));
  const said =
    found.answer === "" ? make("span", { class: "note", say: "answer.none" }) : make("strong", {}, found.answer);
  mark(found);
  tool.output.append(make("p", { class: "statement" }, said), read);
  if (!(found.best?.length > 0)) return;
  const rows = found.best.slice(0, MOST).map((one) => {
    return { ...one, label: one.answer || "∅", value: one.probability, shown: percent(one.probability) };
  });
  tool.output.append(
    make("h3", { say: "answer.others" }),
    bars(rows, { onpick: mark, label: "answer.others" }),
  );
}

const go = {
  id: "answer",
  ability: "predict",
  route: "/predict",
  button: "answer.go",
  hint: "answer.hint",
  fields: [
    { name: "question", kind: "text", label: "answer.question", example: "question" },
    { name: "passage", kind: "area", label: "answer.passage", example: "passage", rows: 7 },
  ],
  body: ({ question, passage }) => ({ questions: [{ question, passage }] }),
  library: ({ question, passage }) => `print(model.predict([(${python(question)}, ${python(passage)})]))`,
  show: showAnswer,
};

export const answer = {
  id: "answer",
  title: "tab.answer",
  lead: "answer.lead",
  how: "answer.how",
  guide: "tasks",
  story: "08-bert",
  task: true,
  tools: [go],
  suits: ({ abilities, task }) => abilities.includes("predict") && task === "answer",
};
