/** Where a classifier errs: the table of confusions on the dev examples; a cell shows its texts or images, one of which is
 *  classified above. */

import { ask } from "../api.js";
import { make } from "../dom.js";
import { percent } from "../numbers.js";
import { errorNote } from "../tool.js";

const MOST_SHOWN = 20;
const [MOST_LABELS, FEW] = [12, 100];

const labelsOf = (examples) =>
  [...new Set(examples.flatMap(({ true: truth, label }) => [String(truth), String(label)]))].sort();

/** The half-width of a 95 % interval of a share (Wilson 1927). */
function margin(share, count) {
  const z = 1.96;
  return (z * Math.sqrt((share * (1 - share)) / count + (z * z) / (4 * count * count))) / (1 + (z * z) / count);
}

function table(labels, examples, onpick, images) {
  const total = (truth) => examples.filter((one) => String(one.true) === truth).length;
  const cell = (truth, guess) => {
    const some = examples.filter((one) => String(one.true) === truth && String(one.label) === guess);
    const share = some.length / Math.max(1, total(truth));
    const kind = truth === guess ? "right" : "wrong";
    const onclick = () => onpick(truth, guess, some);
    const name = [images ? "confusion.cell.images" : "confusion.cell", { truth, guess, count: some.length }];
    const looks = { type: "button", class: `cell ${kind}`, variables: { "--share": share.toFixed(3) } };
    return make("td", {}, make("button", { ...looks, sayLabel: name, disabled: some.length === 0, onclick }, String(some.length)));
  };
  const head = make("tr", {}, make("th", { scope: "col", say: "confusion.true" }), labels.map((label) => make("th", { scope: "col" }, label)));
  const line = (truth) => make("tr", {}, make("th", { scope: "row" }, truth), labels.map((guess) => cell(truth, guess)));
  return make(
    "div",
    { class: "scrolls" },
    make("table", { class: "confusion" }, make("caption", { say: "confusion.caption" }), make("thead", {}, head), make("tbody", {}, labels.map(line))),
  );
}

/** The texts or images of a cell, those first that the model was surest of; images that are gone cannot be picked. */
function texts(some, onpick) {
  const sure = ({ probabilities, label }) => probabilities?.[label] ?? 0;
  const line = (one) =>
    make(
      "li",
      {},
      make("span", { class: "bar-value" }, percent(sure(one))),
      one.image === false
        ? make("span", {}, one.text)
        : make("button", { type: "button", class: "pick", onclick: () => onpick(one) }, one.text, one.second ? ` | ${one.second}` : ""),
    );
  return make("ol", { class: "occurrences" }, [...some].sort((one, other) => sure(other) - sure(one)).slice(0, MOST_SHOWN).map(line));
}

/** How many there are, and that not all are listed. */
const shownOf = (some, images) => [images ? "confusion.click.images" : "confusion.click", { shown: Math.min(some.length, MOST_SHOWN), count: some.length }];

function show(examples, place, onpick, images) {
  const labels = labelsOf(examples);
  const right = examples.filter((one) => String(one.true) === String(one.label)).length / examples.length;
  const listed = make("div", { class: "part" });
  const pick = (truth, guess, some) =>
    listed.replaceChildren(
      make("h3", { say: [truth === guess ? "confusion.rights" : "confusion.errors", { truth, guess }] }),
      make("p", { class: "note", say: shownOf(some, images) }),
      texts(some, onpick),
    );
  const facts = { right: percent(right), margin: percent(margin(right, examples.length)), count: examples.length };
  place.replaceChildren(
    make("p", { class: "statement", say: ["confusion.right", facts] }),
    ...(examples.length < FEW ? [make("p", { class: "note warning", say: ["confusion.few", facts] })] : []),
    ...(labels.length <= MOST_LABELS ? [table(labels, examples, pick, images)] : []),
    listed,
  );
  const wrong = examples.filter((one) => String(one.true) !== String(one.label));
  if (wrong.length > 0) {
    listed.replaceChildren(make("h3", { say: "confusion.all" }), make("p", { class: "note", say: shownOf(wrong, images) }), texts(wrong, onpick));
  }
}

/** The section below the question; null where the run has kept no dev examples. */
export function confusionOf(model, onpick) {
  if (!model.dev || model.task !== "classify" || model.several) return null;
  const place = make("div", { class: "answer" }, make("p", { class: "note waiting", say: "page.waiting" }));
  ask(`/runs/${encodeURIComponent(model.name)}/dev`)
    .then(({ examples }) => show(examples.map((one, number) => ({ ...one, number })), place, onpick, model.images))
    .catch((error) => place.replaceChildren(errorNote(error)));
  const asks = make("div", { class: "ask" }, make("h2", { say: "confusion.title" }), make("p", { class: "lead", say: model.images ? "confusion.lead.images" : "confusion.lead" }));
  return make("section", { class: "tool", id: model.images ? "tool-image-confusion" : "tool-confusion" }, asks, place);
}
