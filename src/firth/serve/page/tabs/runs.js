/** Runs: how the loaded runs were learned, what they score, and their reports. */

import { ask, hasToken, addressOf } from "../api.js";
import { curves } from "../charts/curves.js";
import { make } from "../dom.js";
import { short } from "../numbers.js";
import { saveReport } from "../save_report.js";
import { copyBar } from "../snippets.js";
import { errorNote } from "../tool.js";

const NOT_DRAWN = new Set(["step", "epoch", "epochs", "tokens", "seconds", "learning_rate", "tokens_per_s", "gradient_norm", "memory"]);

/** A line a quantity: losses together; where a curve has none, whatever else it has. */
function seriesOf(curve) {
  const names = [...new Set(curve.flatMap((line) => Object.keys(line).filter((name) => typeof line[name] === "number")))];
  const drawn = names.filter((name) => !NOT_DRAWN.has(name));
  const losses = drawn.filter((name) => name.endsWith("loss"));
  return (losses.length > 0 ? losses : drawn.slice(0, 3)).map((name) => ({
    name: name.replaceAll("_", " "),
    points: curve.filter((line) => Number.isFinite(line[name])).map((line) => [line.step, line[name]]),
  }));
}

function scoreList(scores) {
  const known = Object.entries(scores ?? {}).filter(([, value]) => typeof value === "number");
  return make(
    "dl",
    { class: "scores" },
    known.map(([name, value]) => make("div", {}, make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, short(value)))),
  );
}

/** A link; where a token is wanted a link alone would be refused, so the report is fetched and saved. */
function reportLink({ name }) {
  const route = `/runs/${encodeURIComponent(name)}/report`;
  const onclick = (event) => {
    if (!hasToken()) return;
    event.preventDefault();
    saveReport(route, name).catch((error) => event.target.after(errorNote(error)));
  };
  return make("a", { href: addressOf(route), target: "_blank", rel: "noopener", say: "runs.report", onclick });
}

function showRun(run) {
  const series = run.curve?.length > 0 ? seriesOf(run.curve) : [];
  return make(
    "section",
    { class: "card" },
    make("h2", {}, run.name),
    make("p", { class: "facts" }, run.recipe && make("span", {}, run.recipe), run.kind && run.kind !== run.recipe && make("span", {}, run.kind)),
    series.length > 0 ? curves(series, { xName: "runs.step", label: ["runs.curve", { name: run.name }] }) : make("p", { class: "note", say: "runs.noCurve" }),
    scoreList(run.scores),
    run.report && make("p", {}, reportLink(run)),
  );
}

export const runs = {
  id: "runs",
  title: "tab.runs",
  always: true,
  build(panel) {
    const place = make("div", { class: "cards", "aria-live": "polite" });
    panel.replaceChildren(
      make("header", { class: "head" }, make("div", {}, make("h1", { say: "tab.runs" }), make("p", { class: "lead", say: "runs.lead" }))),
      place,
      copyBar("/runs"),
    );
    ask("/runs")
      .then((found) => place.replaceChildren(...found.runs.map(showRun)))
      .catch((error) => place.replaceChildren(errorNote(error)));
  },
};
