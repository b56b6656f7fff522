/** Label: texts that would teach a classifier most, one after the other; a key or a click labels. What was labelled is kept in the
 *  browser until it is saved as a table that firth finetune reads. */

import { ask } from "../api.js";
import { bars } from "../charts/bars.js";
import { findTexts, parseTable, saveText, writeTable } from "../csv.js";
import { freshId, make } from "../dom.js";
import { fileBox } from "../form.js";
import { percent } from "../numbers.js";
import { keep, recall } from "../storage.js";
import { errorNote } from "../tool.js";
import { buildToolTab } from "../tool_tab.js";
import { predictAll } from "./score_table.js";

const [MOST_ASKED, NUM, SHOWN] = [400, 20, 60];

/** How little a prediction says: the entropy of its class as a share of the largest possible one. */
const unsure = ({ probabilities }) => {
  const shares = Object.values(probabilities);
  return -shares.reduce((sum, share) => sum + (share > 0 ? share * Math.log(share) : 0), 0) / Math.log(shares.length || 2);
};

/** The texts of a pool that are worth a label; of a large pool the doubtful ones are compared. */
async function choose(model, texts, onpart) {
  let pool = [...new Set(texts.map((text) => text.trim()).filter(Boolean))];
  if (pool.length > MOST_ASKED) {
    const found = await predictAll(model, pool, onpart);
    const order = found.map((one, place) => [unsure(one), place]).sort(([one], [other]) => other - one);
    pool = order.slice(0, MOST_ASKED).map(([, place]) => pool[place]);
  }
  return (await ask("/suggest", { texts: pool, num: NUM, model: model.name })).found;
}

/** What was labelled with a model's help, kept over reloads: [{ text, label }]. */
class Labelled {
  constructor(name) {
    this.key = `firth-labels-${name}`;
    try {
      this.rows = JSON.parse(recall(this.key) ?? "[]");
    } catch {
      this.rows = [];
    }
  }

  add(row) {
    this.rows.push(row);
    keep(this.key, JSON.stringify(this.rows));
  }

  undo() {
    const row = this.rows.pop();
    keep(this.key, JSON.stringify(this.rows));
    return row;
  }

  /** The first rows have been stored elsewhere. */
  drop(count) {
    this.rows.splice(0, count);
    keep(this.key, JSON.stringify(this.rows));
  }
}

/** The queue: one text, the labels as buttons, and what was done so far. */
function desk(model, found, place) {
  const done = new Labelled(model.name);
  const queue = found.filter(({ text }) => !done.rows.some((row) => row.text === text));
  let at = 0;
  let sending = false;

  function give(label) {
    if (label !== null) done.add({ text: queue[at].text, label });
    at += 1;
    draw();
  }

  function undo() {
    if (sending) return;
    if (done.undo() !== undefined && at > 0) at -= 1;
    draw();
  }

  /** To the end of the table that the server keeps; what is there is no longer kept here. Labels may be given meanwhile. */
  async function append() {
    if (sending) return;
    sending = true;
    const rows = [...done.rows];
    const sent = rows.length;
    try {
      await ask("/labelled", { rows, model: model.name });
      done.drop(sent);
      draw();
      place.append(make("p", { class: "note", role: "status", say: ["label.appended", { count: sent, file: model.labels_file }] }));
    } catch (error) {
      place.append(errorNote(error));
    } finally {
      sending = false;
    }
  }

  const save = () =>
    saveText(writeTable([["text", "label"], ...done.rows.map(({ text, label }) => [text, label])], "\t"), "labelled.tsv", "text/tab-separated-values");

  function buttons() {
    return model.labels.map((label, number) =>
      make(
        "button",
        { type: "button", class: "main label", onclick: () => give(label) },
        label,
        number < 9 && make("kbd", { "aria-hidden": "true" }, String(number + 1)),
      ),
    );
  }

  function current() {
    const { text, predicted, probability, uncertainty } = queue[at];
    const guess = Array.isArray(predicted) ? predicted.join(", ") : predicted;
    const rows = [{ label: guess, value: probability, shown: percent(probability) }];
    return [
      make("p", { class: "note", say: ["label.place", { number: at + 1, count: queue.length, unsure: percent(uncertainty) }] }),
      make("p", { class: "reading" }, text),
      make("div", { class: "together wraps" }, buttons(), make("button", { type: "button", class: "plain", say: "label.skip", onclick: () => give(null) })),
      make("h3", { say: "label.guess" }),
      bars(rows, { label: "label.guess" }),
    ];
  }

  function draw() {
    const rows = done.rows.slice(-5).reverse();
    place.replaceChildren(
      ...(at < queue.length ? current() : [make("p", { class: "statement", say: "label.finished" })]),
      make(
        "div",
        { class: "part" },
        make("h3", { say: ["label.done", { count: done.rows.length }] }),
        make("ol", { class: "occurrences" }, rows.map(({ text, label }) => make("li", {}, make("strong", {}, label), make("span", {}, text)))),
        make(
          "div",
          { class: "together wraps" },
          model.labels_file &&
            make("button", { type: "button", class: "main", say: ["label.append", { file: model.labels_file }], disabled: done.rows.length === 0, onclick: append }),
          make("button", { type: "button", class: model.labels_file ? "plain" : "main", say: "label.save", disabled: done.rows.length === 0, onclick: save }),
          make("button", { type: "button", class: "plain", say: "label.undo", disabled: done.rows.length === 0, onclick: undo }),
          make("button", { type: "button", class: "plain", say: "label.clear", disabled: done.rows.length === 0, onclick: () => sending || (done.drop(done.rows.length), draw()) }),
        ),
        done.rows.length > 0 && make("p", { class: "note", say: "label.next" }),
        done.rows.length > 0 && make("pre", { class: "code", tabindex: "0" }, "firth finetune classify --base BASE --train all.tsv --dev dev.tsv --out runs/next"),
      ),
    );
  }

  draw();
  return (event) => {
    const typing = event.target.matches?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || place.closest("[hidden]")) return;
    const label = model.labels[Number(event.key) - 1];
    if (label !== undefined && at < queue.length) give(label);
    else if (event.key === "s" && at < queue.length) give(null);
    else if (event.key === "u") undo();
  };
}

let onkey = null; // of the desk that is shown

function labelling(model) {
  const id = freshId("pool");
  const input = make("input", { id, type: "file", accept: ".csv,.tsv,.txt,text/csv,text/plain" });
  const output = make("div", { class: "answer" }, make("p", { class: "hint", say: "label.hint" }));

  let latest = 0; // what is asked last is shown

  async function begin(texts) {
    const mine = ++latest;
    const bar = make("progress", { max: texts.length, value: 0, sayLabel: "table.progress" });
    output.replaceChildren(bar);
    try {
      const found = await choose(model, texts, (done) => (bar.value = done));
      if (mine !== latest) return;
      document.removeEventListener("keydown", onkey);
      document.addEventListener("keydown", (onkey = desk(model, found, output)));
    } catch (error) {
      if (mine === latest) output.replaceChildren(errorNote(error));
    }
  }

  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    latest += 1;
    const text = await file.text();
    if (file.name.endsWith(".txt")) await begin(text.split("\n"));
    else {
      const { rows, column } = findTexts(parseTable(text).rows);
      await begin(rows.map((row) => row[column] ?? ""));
    }
  });
  // Something to see at once: the dev examples, as if they had no labels.
  if (model.dev) {
    ask(`/runs/${encodeURIComponent(model.name)}/dev`)
      .then(({ examples }) => latest || begin(examples.slice(0, SHOWN).map(({ text }) => text)))
      .catch((error) => latest || output.replaceChildren(errorNote(error)));
  }
  const field = make("div", { class: "field file" }, make("label", { for: id, say: "label.file" }), fileBox(input));
  const keys = make("p", { class: "note", say: "label.keys" });
  const asks = make("div", { class: "ask" }, make("h2", { class: "unseen", say: "tab.label" }), make("div", { class: "question" }, field, keys));
  return make("section", { class: "tool", id: "tool-label" }, asks, output);
}

export const label = {
  id: "label",
  title: "tab.label",
  lead: "label.lead",
  how: "label.how",
  guide: "guides/tickets",
  task: true,
  tools: [],
  suits: ({ abilities, task, images, pair, several }) =>
    !images && !pair && !several && abilities.includes("predict") && task === "classify",
  below: (model) => [labelling(model)],
  build: (panel, models, remember) => buildToolTab(label, panel, models, remember),
};
