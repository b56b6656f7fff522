/** How well a tagger finds each type of entity, and what kinds of errors it makes, on the dev examples. */

import { ask } from "../api.js";
import { bars } from "../charts/bars.js";
import { make } from "../dom.js";
import { decimal } from "../numbers.js";
import { errorNote } from "../tool.js";

const FEW = 100; // sentences

const NUMBERS = ["precision", "recall", "f1"];
const COLUMNS = ["tag.kind", ...NUMBERS.map((name) => `metric.${name}`), "entities.true", "entities.guessed"];

function typeTable(types) {
  const number = (text) => make("td", { class: "number" }, text);
  const row = (one) =>
    make("tr", {}, make("td", {}, one.type), NUMBERS.map((name) => number(decimal(one[name]))), number(String(one.true)), number(String(one.guessed)));
  const head = make("tr", {}, COLUMNS.map((key) => make("th", { scope: "col", say: key })));
  return make("div", { class: "scrolls", tabindex: "0", role: "group", sayLabel: "entities.title" }, make("table", { class: "types" }, make("thead", {}, head), make("tbody", {}, types.map(row))));
}

/** Kinds of errors; one that is picked lists its entities. */
function errorsOf(errors) {
  const listed = make("div", { class: "part" });
  const total = errors.reduce((sum, { count }) => sum + count, 0);
  const pick = ({ kind, count, examples }) =>
    listed.replaceChildren(
      make("h3", { say: `entities.${kind}` }),
      make("p", { class: "note", say: ["entities.shown", { shown: examples.length, count }] }),
      make("ul", { class: "sources" }, examples.map((text) => make("li", {}, text))),
    );
  const rows = errors.map((one) => ({ ...one, pickSay: `entities.${one.kind}`, value: one.count, shown: String(one.count) }));
  pick(errors[0]);
  return [bars(rows, { onpick: pick, label: "entities.errors", most: total, even: true }), listed];
}

function show({ types, errors, sentences }, place) {
  const few = make("p", { class: "note warning", say: ["entities.few", { count: sentences }] });
  place.replaceChildren(
    ...(sentences < FEW ? [few] : []),
    typeTable([...types].sort((one, other) => other.true - one.true)),
    make("h3", { say: "entities.errors" }),
    ...(errors.length > 0 ? errorsOf(errors) : [make("p", { class: "note", say: "entities.none" })]),
  );
}

/** The section below the question; null where the run has kept no dev examples, or tags are no entities. */
export function entitiesOf(model) {
  if (!model.dev || model.task !== "tag" || !model.labels?.includes("O")) return null;
  const place = make("div", { class: "answer" }, make("p", { class: "note waiting", say: "page.waiting" }));
  ask(`/runs/${encodeURIComponent(model.name)}/entities`)
    .then((found) => show(found, place))
    .catch((error) => place.replaceChildren(errorNote(error)));
  const asks = make("div", { class: "ask" }, make("h2", { say: "entities.title" }), make("p", { class: "lead", say: "entities.lead" }));
  return make("section", { class: "tool", id: "tool-entities" }, asks, place);
}
