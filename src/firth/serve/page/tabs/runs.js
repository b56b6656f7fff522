/** Runs: how the loaded runs were learned, what they score, and their reports. */

import { ask, hasToken, addressOf } from "../api.js";
import { curves } from "../charts/curves.js";
import { make } from "../dom.js";
import { heading } from "../heading.js";
import { short } from "../numbers.js";
import { saveReport } from "../save_report.js";
import { copyBar } from "../snippets.js";
import { errorNote } from "../tool.js";

const MOST_LINES = 3;

/** A quantity as a line. */
const lineOf = (curve, name) => ({
  name: name.replaceAll("_", " ").replace("heldout", "held-out"),
  points: curve.filter((line) => Number.isFinite(line[name])).map((line) => [line.step, line[name]]),
});

/** What is drawn: losses in one picture and, where held-out text is not judged by a loss, its scores in another.
 *  A single point is no curve. */
function picturesOf(curve) {
  const names = [...new Set(curve.flatMap((line) => Object.keys(line)))];
  const scores = names.includes("heldout_loss") ? [] : names.filter((name) => name.startsWith("heldout_"));
  return [["loss", "heldout_loss"], scores.slice(0, MOST_LINES)]
    .map((some) => some.map((name) => lineOf(curve, name)).filter(({ points }) => points.length > 1))
    .filter((lines) => lines.length > 0);
}

function drawCurves({ name, curve }) {
  const pictures = picturesOf(curve ?? []);
  if (pictures.length === 0) return make("p", { class: "note", say: "runs.noCurve" });
  return pictures.map((series) => curves(series, { xName: "runs.step", label: ["runs.curve", { name }], height: 220 }));
}

function scoreList(scores) {
  const known = Object.entries(scores ?? {}).filter(([, value]) => typeof value === "number");
  const entry = ([name, value]) =>
    make("div", {}, make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, short(value)));
  return make("dl", { class: "scores" }, known.map(entry));
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
  const kinds = [...new Set([run.recipe, run.kind])].filter(Boolean);
  return make(
    "section",
    { class: "card" },
    make("h2", {}, run.name),
    make("p", { class: "facts" }, kinds.map((kind) => make("span", {}, kind))),
    drawCurves(run),
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
      make("header", { class: "head" }, heading("tab.runs", "runs.lead")),
      place,
      copyBar("/runs"),
    );
    ask("/runs")
      .then((found) => place.replaceChildren(...found.runs.map(showRun)))
      .catch((error) => place.replaceChildren(errorNote(error)));
  },
};
