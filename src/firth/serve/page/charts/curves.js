/** Lines over steps, with a readout of the nearest step while the pointer is over them. */

import { draw } from "../dom.js";
import { short, ticks } from "../numbers.js";
import { fitted, picture, textWidth } from "./fitted.js";

const RIGHT = 12;
const LEGEND = 20;
const BOTTOM = 34;

/** `series`: { name, points: [[x, y]] }; `xName` stands below. */
export function curves(series, { xName, label, height = 240 }) {
  const shown = series.filter((one) => one.points.length > 0);
  return fitted((width) => drawCurves(shown, width, height, xName, label));
}

function drawCurves(series, width, height, xName, label) {
  const all = series.flatMap((one) => one.points);
  const [lowX, highX] = range(all.map(([x]) => x), 0);
  const [lowY, highY] = upToTick(range(all.map(([, y]) => y), 0.06));
  const marks = ticks(lowY, highY, 4);
  const left = Math.max(...marks.map((mark) => textWidth(short(mark), 12))) + 14;
  const legend = placeLegend(series, left, width);
  const top = legend.height + 10;
  const x = (value) => left + ((value - lowX) / (highX - lowX)) * (width - left - RIGHT);
  const y = (value) => height - BOTTOM - ((value - lowY) / (highY - lowY)) * (height - top - BOTTOM);
  const chart = picture(width, height, label, { class: "curves" });
  for (const mark of marks) {
    chart.append(
      draw("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y(mark), y2: y(mark) }),
      draw("text", { class: "axis", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, short(mark)),
    );
  }
  // Steps are whole numbers.
  for (const mark of ticks(lowX, highX, Math.max(2, Math.floor(width / 110))).filter(Number.isInteger)) {
    const below = { class: "axis", x: x(mark), y: height - BOTTOM + 18, "text-anchor": "middle" };
    chart.append(draw("text", below, short(mark)));
  }
  chart.append(draw("text", { class: "axis", x: width - RIGHT, y: height - 2, "text-anchor": "end", say: xName }));
  series.forEach((one, number) => chart.append(drawLine(one, number, x, y)));
  chart.append(drawLegend(series, legend.places), drawReadout(series, x, chart, { left, top, height }));
  return chart;
}

/** A single value, or all the same, also gets some room. */
function range(values, margin) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low) * margin || (high === low ? Math.abs(high) * 0.05 || 0.5 : 0);
  return [low - room, high + room];
}

/** The highest value lies below a tick, so that it can be read. */
function upToTick([low, high]) {
  const [first, second] = ticks(low, high, 4);
  return second === undefined ? [low, high] : [low, Math.ceil(high / (second - first) - 1e-9) * (second - first)];
}

function drawLine({ points }, number, x, y) {
  const path = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const few = points.length <= 40 ? points : [];
  const dots = few.map(([at, value]) => draw("circle", { class: "dot", cx: x(at), cy: y(value), r: 2.5 }));
  return draw("g", { class: `series c${number % 8}` }, draw("polyline", { points: path }), dots);
}

/** Where the names of the lines stand: beside one another, and in a new row where there is no more room. */
function placeLegend(series, left, width) {
  let [x, y] = [left, 12];
  const places = series.map(({ name }) => {
    const wide = textWidth(name, 12) + 38;
    if (x > left && x + wide > width) [x, y] = [left, y + LEGEND];
    const place = { x, y };
    x += wide;
    return place;
  });
  return { places, height: y + 8 };
}

const drawLegend = (series, places) =>
  draw(
    "g",
    { class: "legend" },
    series.map(({ name }, number) => {
      const { x, y } = places[number];
      return draw(
        "g",
        { class: `series c${number % 8}` },
        draw("line", { x1: x, x2: x + 16, y1: y, y2: y }),
        draw("text", { x: x + 22, y: y + 4 }, name),
      );
    }),
  );

function drawReadout(series, x, chart, { left, top, height }) {
  const line = draw("line", { class: "cursor", y1: top, y2: height - BOTTOM });
  const text = draw("text", { class: "readout", x: left, y: height - 2 });
  const group = draw("g", { class: "hovered", visibility: "hidden" }, line, text);
  const steps = [...new Set(series.flatMap((one) => one.points.map(([at]) => at)))];
  chart.addEventListener("pointerleave", () => group.setAttribute("visibility", "hidden"));
  chart.addEventListener("pointermove", (event) => {
    const over = event.clientX - chart.getBoundingClientRect().left;
    const step = steps.reduce((best, one) => (Math.abs(x(one) - over) < Math.abs(x(best) - over) ? one : best));
    for (const end of ["x1", "x2"]) line.setAttribute(end, x(step));
    const values = series.flatMap((one) => one.points.filter(([at]) => at === step).map(([, value]) => short(value)));
    text.textContent = `${short(step)}: ${values.join(" · ")}`;
    group.setAttribute("visibility", "visible");
  });
  return group;
}
