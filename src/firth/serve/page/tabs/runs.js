/** Runs: all of them in a table that sorts and filters; curves of those chosen in one picture, their settings side by side; a
 *  training that is under way is watched. */

import { ask, hasToken, addressOf } from "../api.js";
import { curves } from "../charts/curves.js";
import { freshId, make } from "../dom.js";
import { heading } from "../heading.js";
import { knows, language, t } from "../i18n.js";
import { metricName } from "../names.js";
import { bytes, count, decimal, duration, short } from "../numbers.js";
import { saveReport } from "../save_report.js";
import { copyBar } from "../snippets.js";
import { errorNote } from "../tool.js";

const [WATCH_MS, MOST_CURVES] = [2000, 8];
const SCORES = ["bleu", "masked_accuracy", "perplexity", "accuracy", "f1", "macro_f1", "exact", "spearman", "loss"];

/** The score that a run is judged by. */
function scoreOf({ metric, scores }) {
  const name = metric && metric in scores ? metric : (SCORES.find((one) => one in scores) ?? Object.keys(scores)[0]);
  return name === undefined ? null : { name, value: scores[name] };
}

/** Shares with three decimals, so that they stand below one another and agree with their interval. */
const scoreText = (value) => (Math.abs(value) <= 1 ? decimal(value) : short(value));

const COLUMNS = [
  { id: "name", sort: (run) => run.name },
  { id: "recipe", sort: (run) => run.recipe ?? "" },
  { id: "base", sort: (run) => run.base ?? "" },
  { id: "score", sort: (run) => scoreOf(run)?.value ?? -Infinity, number: true },
  { id: "parameters", sort: (run) => run.parameters ?? 0, number: true },
  { id: "seconds", sort: (run) => run.seconds ?? 0, number: true },
  { id: "bytes", sort: (run) => run.bytes ?? 0, number: true },
  { id: "status", sort: (run) => run.status },
];

/** A link; where a token is wanted a link alone would be refused, so the report is fetched and saved. */
function reportLink({ name }) {
  const route = `/runs/${encodeURIComponent(name)}/report`;
  const onclick = (event) => {
    if (!hasToken()) return;
    event.preventDefault();
    saveReport(route, name).catch((error) => event.target.after(errorNote(error)));
  };
  const href = `${addressOf(route)}${language() === "zh" ? "#zh" : ""}`;
  return make("a", { href, target: "_blank", rel: "noopener", say: "runs.report", onclick });
}

/** The recipe, for a task what it does, and for what has none (an index, an export) what it is. */
function recipeName({ recipe, kind }) {
  const key = [`task.${recipe}`, `kind.${kind}`].find(knows);
  return recipe && key !== `task.${recipe}` ? recipe : key ? t(key) : "–";
}

function cellOf(run, { id, number }) {
  const score = scoreOf(run);
  const known = run.interval && run.interval[0] < run.interval[1]; // of a few examples without an error it says nothing
  const range = known && run.metric === score?.name ? ` (${run.interval.map(scoreText).join("–")})` : "";
  const content = {
    name: () => [make("strong", {}, run.name), run.report && run.served && reportLink(run)],
    recipe: () => [recipeName(run)],
    base: () => [run.base ?? run.corpus ?? "–"],
    score: () => [score ? `${metricName(score.name)} ${scoreText(score.value)}${range}` : "–"],
    parameters: () => [run.parameters ? count(run.parameters) : "–"],
    seconds: () => [run.seconds ? duration(run.seconds) : "–"],
    bytes: () => [run.bytes ? bytes(run.bytes) : "–"],
    status: () => [make("span", { class: `status ${run.status}`, say: `runs.${run.status}` })],
  }[id]();
  const empty = content[0] === "–";
  return make("td", { class: number ? "number" : undefined, "data-empty": empty, "data-label": t(`runs.column.${id}`) }, make("span", {}, content));
}

/** The lines of a quantity, one for each run that has measured it. */
const linesOf = (runs, name) =>
  runs
    .map((run) => ({
      name: run.name,
      points: run.curve.filter((line) => Number.isFinite(line[name])).map((line) => [line.step, line[name]]),
    }))
    .filter(({ points }) => points.length > 1);

/** Quantities that at least one run has a curve of, the usual ones first. */
function quantities(runs) {
  const usual = ["heldout_loss", "loss"];
  const names = [...new Set(runs.flatMap((run) => run.curve.flatMap((line) => Object.keys(line))))];
  const measured = names.filter((name) => name.startsWith("heldout_") || ["loss", "learning_rate"].includes(name));
  const order = (name) => (usual.includes(name) ? usual.indexOf(name) : name.startsWith("heldout_") ? 2 : 3);
  return measured.filter((name) => linesOf(runs, name).length > 0).sort((one, other) => order(one) - order(other));
}

function curvePart(runs, state, redraw) {
  const names = quantities(runs);
  if (names.length === 0) return [make("p", { class: "note", say: "runs.noCurve" })];
  if (!names.includes(state.quantity)) state.quantity = names[0];
  const id = freshId("quantity");
  const onchange = (event) => {
    state.quantity = event.target.value;
    redraw();
  };
  const options = names.map((name) => make("option", { value: name, selected: name === state.quantity }, metricName(name)));
  const choice = make("div", { class: "field narrow" }, make("label", { for: id, say: "runs.quantity" }), make("select", { id, onchange }, options));
  const label = ["runs.curves", { name: metricName(state.quantity) }];
  return [choice, curves(linesOf(runs, state.quantity), { xName: "runs.step", label, height: 280 })];
}

/** What differs in the settings of some runs; those that only some of them have are folded. */
function differences(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  const shared = (name) => runs.every(({ settings }) => name in settings);
  const shown = ({ settings }, name) => {
    const value = settings[name] ?? "–";
    return typeof value === "boolean" ? t(value ? "runs.on" : "runs.off") : typeof value === "object" ? JSON.stringify(value) : String(value);
  };
  const rows = names.filter((name) => new Set(runs.map((run) => shown(run, name))).size > 1).sort();
  const head = () => make("tr", {}, make("th", { scope: "col", say: "runs.setting" }), runs.map((run) => make("th", { scope: "col" }, run.name)));
  const line = (name) =>
    make("tr", {}, make("th", { scope: "row" }, make("code", {}, name)), runs.map((run) => make("td", { "data-label": run.name }, shown(run, name))));
  const table = (some) =>
    make("div", { class: "scrolls" }, make("table", { class: "stacks" }, make("thead", {}, head()), make("tbody", {}, some.map(line))));
  const [both, single] = [rows.filter(shared), rows.filter((name) => !shared(name))];
  return [
    make("h2", { say: ["runs.differ", { count: both.length }] }),
    both.length > 0 && table(both),
    single.length > 0 && make("details", { class: "more" }, make("summary", { say: ["runs.only", { count: single.length }] }), table(single)),
  ].filter(Boolean);
}

/** A training under way: how far it is, its losses, and what it says now. */
function watched(run) {
  const losses = ["loss", "heldout_loss"].flatMap((name) => linesOf([run], name).map((line) => ({ ...line, name: metricName(name) })));
  const last = run.curve.findLast((line) => Number.isFinite(line.learning_rate));
  const facts = [
    make("span", { say: ["runs.at", { step: run.step ?? 0, steps: run.steps ?? "?" }] }),
    run.seconds && make("span", {}, duration(run.seconds)),
    last && make("span", { say: ["runs.rate", { rate: short(last.learning_rate) }] }),
    last?.tokens_per_s && make("span", { say: ["runs.speed", { speed: count(Math.round(last.tokens_per_s)) }] }),
  ];
  return make(
    "section",
    { class: "card" },
    make("h2", {}, run.name),
    make("p", { class: "facts" }, facts.filter(Boolean)),
    run.steps && make("progress", { max: run.steps, value: run.step ?? 0, sayLabel: ["runs.progress", { name: run.name }] }),
    losses.length > 0 && curves(losses, { xName: "runs.step", label: ["runs.curve", { name: run.name }], height: 200 }),
    run.samples.length > 0 && [make("h3", { say: "runs.samples" }), make("ol", { class: "samples" }, run.samples.map((text) => make("li", {}, text)))],
  );
}

/** What is compared at first: runs with curves, of one recipe where there are several of it. */
function comparable(runs) {
  const drawn = runs.filter((run) => linesOf([run], "heldout_loss").length > 0);
  const alike = drawn.filter((run) => drawn.filter(({ recipe }) => recipe === run.recipe).length > 1);
  return (alike.length > 0 ? alike.filter(({ recipe }) => recipe === alike[0].recipe) : drawn).slice(0, 3);
}

class RunTable {
  constructor(panel) {
    this.state = { sort: "name", down: false, filter: "", chosen: null, quantity: null };
    const id = freshId("filter");
    const oninput = (event) => {
      this.state.filter = event.target.value.toLowerCase();
      this.drawTable();
    };
    this.filter = make("div", { class: "field narrow" }, make("label", { for: id, say: "runs.filter" }), make("input", { id, type: "text", oninput }));
    this.live = make("div", { class: "cards", "aria-live": "polite" });
    this.place = make("div", {}, make("p", { class: "note waiting", say: "page.waiting" }));
    this.below = make("div", { class: "below" });
    panel.replaceChildren(make("header", { class: "head" }, heading(runs)), this.live, this.filter, this.place, this.below, copyBar("/runs"));
    document.addEventListener("firth-language", () => this.runs && this.draw());
  }

  async load() {
    try {
      this.runs = (await ask("/runs")).runs;
    } catch (error) {
      this.place.replaceChildren(errorNote(error));
      return;
    }
    this.state.chosen ??= new Set(comparable(this.runs).map((run) => run.name));
    this.draw();
  }

  draw() {
    const training = this.runs.filter((run) => run.status === "training");
    this.live.replaceChildren(...training.map(watched));
    this.drawTable();
    this.drawBelow();
    clearTimeout(this.timer);
    if (training.length > 0) this.timer = setTimeout(() => this.watch(), WATCH_MS);
  }

  /** Only while somebody looks. */
  watch() {
    if (this.place.closest("[hidden]") || document.hidden) this.timer = setTimeout(() => this.watch(), WATCH_MS);
    else this.load();
  }

  drawTable() {
    const { sort, down, filter } = this.state;
    const { sort: value } = COLUMNS.find(({ id }) => id === sort);
    const order = (one, other) => (value(one) < value(other) ? -1 : value(one) > value(other) ? 1 : 0) * (down ? -1 : 1);
    const text = (run) => [run.name, run.recipe, run.base, run.kind, run.corpus].join(" ").toLowerCase();
    const shown = this.runs.filter((run) => text(run).includes(filter)).sort(order);
    const head = make("tr", {}, make("th", { scope: "col" }, make("span", { class: "unseen", say: "runs.compare" })), COLUMNS.map((column) => this.header(column)));
    const focused = document.activeElement?.id;
    this.place.replaceChildren(
      make("div", { class: "scrolls" }, make("table", { class: "stacks runs" }, make("thead", {}, head), make("tbody", {}, shown.map((run) => this.row(run))))),
      ...(shown.length === 0 ? [make("p", { class: "note", say: "runs.nothing" })] : []),
    );
    if (focused) document.getElementById(focused)?.focus();
  }

  header({ id, number }) {
    const { sort, down } = this.state;
    const onclick = () => {
      this.state.down = sort === id ? !down : Boolean(number);
      this.state.sort = id;
      this.drawTable();
    };
    const direction = sort === id ? (down ? "descending" : "ascending") : "none";
    const arrow = make("span", { "aria-hidden": "true" }, sort === id ? (down ? " ↓" : " ↑") : "");
    const looks = { type: "button", class: "sorts", id: `sort-${id}`, onclick };
    return make("th", { scope: "col", class: number ? "number" : undefined, "aria-sort": direction }, make("button", looks, make("span", { say: `runs.column.${id}` }), arrow));
  }

  row(run) {
    const onchange = ({ target }) => {
      if (target.checked) this.state.chosen.add(run.name);
      else this.state.chosen.delete(run.name);
      this.drawBelow();
    };
    const checked = this.state.chosen.has(run.name);
    const box = make("input", { type: "checkbox", checked, sayLabel: ["runs.choose", { name: run.name }], onchange });
    return make("tr", {}, make("td", { class: "choose" }, box), COLUMNS.map((column) => cellOf(run, column)));
  }

  drawBelow() {
    const chosen = this.runs.filter((run) => this.state.chosen.has(run.name)).slice(0, MOST_CURVES);
    const redraw = () => this.drawBelow();
    if (chosen.length === 0) {
      this.below.replaceChildren(make("p", { class: "note", say: "runs.chooseSome" }));
      return;
    }
    this.below.replaceChildren(
      make("h2", { say: "runs.together" }),
      ...curvePart(chosen, this.state, redraw),
      ...(chosen.length > 1 ? differences(chosen) : []),
    );
  }
}

export const runs = {
  id: "runs",
  title: "tab.runs",
  lead: "runs.lead",
  how: "runs.how",
  guide: "serving",
  always: true,
  build(panel) {
    const table = new RunTable(panel);
    return () => table.load();
  },
};
