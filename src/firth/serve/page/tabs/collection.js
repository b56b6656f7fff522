/** What an index holds as a whole: its documents in groups, and those that say nearly the same. */

import { clusterMap, kindOf } from "../charts/cluster_map.js";
import { make } from "../dom.js";
import { t } from "../i18n.js";
import { decimal, percent } from "../numbers.js";

const [FEWEST, MOST] = [10, 3000]; // documents that are grouped here, in a few seconds
const [WORDS, SHOWN, MOST_PAIRS] = [3, 8, 12];

const fits = (model, least) => model.documents >= least && model.documents <= MOST;

/** What the page calls a group without words; null where it has some. */
const sayOf = ({ number, words }) =>
  number < 0 ? "topics.none" : words.length > 0 ? null : ["topics.group", { number: number + 1 }];

function showTopics({ topics, points }, values, tool) {
  const names = new Map(topics.map((topic) => [topic.number, { words: topic.words.slice(0, WORDS).join(" · "), say: sayOf(topic) }]));
  const readout = make("p", { class: "readout", "aria-hidden": "true" });
  const onpoint = (point) => (readout.textContent = point === null ? "" : point.text);
  const map = clusterMap(points, names, { label: "topics.map", onpoint });
  const listed = make("div", { class: "part" });
  const pick = (topic, button) => {
    const again = button.getAttribute("aria-pressed") === "true";
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === button && !again));
    map.marked(again ? null : topic.number);
    listed.replaceChildren(...(again ? [] : documentsOf(topic, points)));
  };
  const buttons = topics.map((topic) =>
    make(
      "button",
      { type: "button", class: "candidate topic", "aria-pressed": "false", onclick: ({ currentTarget }) => pick(topic, currentTarget) },
      make("span", { class: `swatch ${kindOf(topic.number)}`, "aria-hidden": "true" }),
      make("span", { class: "topic-name", say: sayOf(topic) }, sayOf(topic) ? undefined : topic.words.join(", ")),
      make("span", { class: "note", say: ["topics.share", { count: topic.documents, share: () => percent(topic.documents / points.length) }] }),
    ),
  );
  const list = make("ol", { class: "candidates" }, buttons.map((button) => make("li", {}, button)));
  tool.output.append(map.box, readout, ...(topics.every(({ number }) => number < 0) ? [make("p", { class: "note", say: "topics.nothing" })] : [list]), listed);
}

function documentsOf(topic, points) {
  const inside = points.filter((point) => point.topic === topic.number);
  return [
    make("p", { class: "note", say: ["topics.documents", { shown: Math.min(SHOWN, inside.length), count: inside.length }] }),
    make("ul", { class: "sources" }, inside.slice(0, SHOWN).map(({ text }) => make("li", {}, text))),
  ];
}

export const topics = {
  id: "topics",
  ability: "group",
  route: "/topics",
  title: "topics.title",
  lead: "topics.lead",
  button: "topics.go",
  hint: ["topics.hint", { fewest: FEWEST, most: MOST.toLocaleString("en") }],
  fields: [{ name: "words", kind: "number", label: "topics.words", value: 5, min: 1, max: 20, more: true }],
  ready: (values, model) => fits(model, FEWEST),
  body: ({ words }) => ({ words }),
  show: showTopics,
};

const PAIR = ["duplicates.cosine", "duplicates.first", "duplicates.second"];

function showPairs({ pairs, count, documents }, { least }, tool) {
  if (count === 0) {
    tool.output.append(make("p", { class: "note", say: ["duplicates.nothing", { documents, least }] }));
    return;
  }
  const row = ({ first, second, cosine }) =>
    make(
      "tr",
      {},
      [decimal(cosine), first, second].map((said, place) =>
        make("td", { class: place === 0 ? "number" : undefined, "data-label": t(PAIR[place]) }, make("span", {}, said)),
      ),
    );
  const head = make("tr", {}, PAIR.map((key) => make("th", { scope: "col", say: key })));
  tool.output.append(
    make("p", { class: "note", say: ["duplicates.count", { shown: Math.min(pairs.length, MOST_PAIRS), count, documents }] }),
    make("div", { class: "scrolls", tabindex: "0", role: "group", sayLabel: "duplicates.title" }, make("table", { class: "pairs stacks" }, make("thead", {}, head), make("tbody", {}, pairs.slice(0, MOST_PAIRS).map(row)))),
  );
}

export const duplicates = {
  id: "duplicates",
  ability: "group",
  route: "/duplicates",
  title: "duplicates.title",
  lead: "duplicates.lead",
  button: "duplicates.go",
  hint: ["duplicates.hint", { most: MOST.toLocaleString("en") }],
  fields: [{ name: "least", kind: "number", label: "duplicates.least", value: 0.95, min: 0.5, max: 1, step: 0.01 }],
  ready: (values, model) => fits(model, 2),
  body: ({ least }) => ({ least }),
  show: showPairs,
};
