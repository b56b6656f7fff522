/** A table of texts, scored: it is read in the browser, sent in parts, and given back with what the model says of each row. */

import { ask } from "../api.js";
import { bars } from "../charts/bars.js";
import { findTexts, parseTable, saveText, writeTable } from "../csv.js";
import { freshId, make } from "../dom.js";
import { fileBox } from "../form.js";
import { percent, short } from "../numbers.js";
import { errorNote } from "../tool.js";

const [MOST_TEXTS, MOST_LETTERS, SHOWN] = [64, 20_000, 8];

/** Parts that the server takes at once. */
export function parts(texts) {
  const found = [];
  let letters = Infinity;
  for (const text of texts) {
    if (letters + text.length > MOST_LETTERS || found.at(-1).length >= MOST_TEXTS) {
      found.push([]);
      letters = 0;
    }
    found.at(-1).push(text);
    letters += text.length;
  }
  return found;
}

/** Predictions for all texts; `onpart(done, total)` hears of the progress. */
export async function predictAll(model, texts, onpart) {
  const found = [];
  for (const some of parts(texts)) {
    const { predictions } = await ask("/predict", { texts: some, model: model.name });
    found.push(...predictions);
    onpart(found.length, texts.length);
  }
  return found;
}

/** The cells that a prediction adds to its row. */
function cells(found) {
  if (found.probabilities === undefined) return [short(found.score)];
  const label = found.labels ? found.labels.join("; ") : found.label;
  const sure = Math.max(...Object.values(found.probabilities));
  return [label, sure.toFixed(4)];
}

const names = (found) => (found.probabilities === undefined ? ["score"] : ["predicted", "probability"]);

function summary(predictions) {
  if (predictions[0].probabilities === undefined) return [];
  const counts = new Map();
  for (const one of predictions) counts.set(cells(one)[0], (counts.get(cells(one)[0]) ?? 0) + 1);
  const rows = [...counts].sort(([, one], [, other]) => other - one).map(([label, count]) => {
    const share = count / predictions.length;
    return { label, value: share, shown: `${count} (${percent(share)})` };
  });
  const unsure = predictions.filter((one) => Math.max(...Object.values(one.probabilities)) < 0.7).length;
  return [
    make("h3", { say: ["table.found", { count: predictions.length }] }),
    bars(rows, { label: "table.counts", even: true }),
    make("p", { class: "note", say: ["table.unsure", { unsure }] }),
  ];
}

function preview(header, rows) {
  const head = make("tr", {}, header.map((cell) => make("th", { scope: "col" }, cell)));
  const line = (row) => make("tr", {}, row.map((cell, place) => make("td", { "data-label": header[place] }, cell)));
  const body = make("tbody", {}, rows.slice(0, SHOWN).map(line));
  return make("div", { class: "scrolls" }, make("table", { class: "stacks" }, make("thead", {}, head), body));
}

/** The section below the question of Classify. */
export function scoreTable(model) {
  const id = freshId("table");
  const input = make("input", { id, type: "file", accept: ".csv,.tsv,.txt,text/csv,text/plain" });
  const columns = make("select", { id: `${id}-column` });
  const choice = make("div", { class: "field", hidden: true }, make("label", { for: columns.id, say: "table.column" }), columns);
  const go = make("button", { type: "button", class: "main", say: "table.go", disabled: true });
  const output = make("div", { class: "answer", "aria-live": "polite" }, make("p", { class: "hint", say: "table.hint" }));
  let table = null;

  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    const { rows, separator } = parseTable(await file.text());
    if (rows.length === 0) {
      output.replaceChildren(make("p", { class: "error", role: "alert", say: "table.empty" }));
      return;
    }
    table = { ...findTexts(rows), separator, name: file.name };
    const named = table.header ?? rows[0].map((_, place) => String(place + 1));
    columns.replaceChildren(...named.map((cell, place) => make("option", { value: place, selected: place === table.column }, cell)));
    choice.hidden = named.length < 2;
    go.disabled = false;
    await score();
  });
  columns.addEventListener("change", score);
  go.addEventListener("click", score);

  async function score() {
    const texts = table.rows.map((row) => row[Number(columns.value)] ?? "");
    const bar = make("progress", { max: texts.length, value: 0, sayLabel: "table.progress" });
    output.replaceChildren(bar);
    go.disabled = true;
    try {
      show(await predictAll(model, texts, (done) => (bar.value = done)));
    } catch (error) {
      output.replaceChildren(errorNote(error));
    } finally {
      go.disabled = false;
    }
  }

  function show(predictions) {
    const header = [...(table.header ?? table.rows[0].map((_, place) => `column ${place + 1}`)), ...names(predictions[0])];
    const rows = table.rows.map((row, place) => [...row, ...cells(predictions[place])]);
    const save = () =>
      saveText(writeTable([header, ...rows], table.separator), table.name.replace(/(\.\w+)?$/u, "-scored$1"));
    output.replaceChildren(
      ...summary(predictions),
      make("p", {}, make("button", { type: "button", class: "main", say: "table.save", onclick: save })),
      preview(header, rows),
    );
  }

  const field = make("div", { class: "field file" }, make("label", { for: id, say: "table.file" }), fileBox(input));
  const form = make("div", { class: "question" }, field, choice, make("div", { class: "go" }, go));
  const asks = make("div", { class: "ask" }, make("h2", { say: "table.title" }), make("p", { class: "lead", say: "table.lead" }), form);
  return make("section", { class: "tool", id: "tool-table" }, asks, output);
}
