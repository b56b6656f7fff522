/** Lines over steps, with a readout of the nearest step while the pointer is over them. */

import { draw } from "../dom.js";
import { short, ticks } from "../numbers.js";
import { fitted, textWidth } from "./fitted.js";

const TOP = 30;
const RIGHT = 12;
const BOTTOM = 34;

/** `series`: { name, points: [[x, y]] }; `xName` stands below. */
export function curves(series, { xName, label, height = 240 }) {
  const shown = series.filter((one) => one.points.length > 0);
  return fitted((width) => drawCurves(shown, width, height, xName, label));
}

function drawCurves(series, width, height, xName, label) {
  const all = series.flatMap((one) => one.points);
  const [lowX, highX] = range(all.map(([x]) => x), 0);
  const [lowY, highY] = range(all.map(([, y]) => y), 0.06);
  const marks = ticks(lowY, highY, 4);
  const left = Math.max(...marks.map((mark) => textWidth(short(mark), 12))) + 14;
  const x = (value) => left + ((value - lowX) / (highX - lowX)) * (width - left - RIGHT);
  const y = (value) => height - BOTTOM - ((value - lowY) / (highY - lowY)) * (height - TOP - BOTTOM);
  const picture = draw("svg", { class: "curves", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", sayLabel: label });
  for (const mark of marks) {
    picture.append(
      draw("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y(mark), y2: y(mark) }),
      draw("text", { class: "axis", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, short(mark)),
    );
  }
  for (const mark of ticks(lowX, highX, Math.max(2, Math.floor(width / 110)))) {
    picture.append(draw("text", { class: "axis", x: x(mark), y: height - BOTTOM + 18, "text-anchor": "middle" }, short(mark)));
  }
  picture.append(draw("text", { class: "axis", x: width - RIGHT, y: height - 2, "text-anchor": "end", say: xName }));
  series.forEach((one, number) => picture.append(drawLine(one, number, x, y)));
  picture.append(drawLegend(series, left), drawReadout(series, x, y, picture, { left, width, height }));
  return picture;
}

/** A single value, or all the same, also gets some room. */
function range(values, margin) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low) * margin || (high === low ? Math.abs(high) * 0.05 || 0.5 : 0);
  return [low - room, high + room];
}

function drawLine({ points }, number, x, y) {
  const path = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const dots = points.length > 40 ? [] : points.map(([at, value]) => draw("circle", { class: "dot", cx: x(at), cy: y(value), r: 2.5 }));
  return draw("g", { class: `series s${number % 4}` }, draw("polyline", { points: path }), dots);
}

function drawLegend(series, left) {
  let at = left;
  return draw(
    "g",
    { class: "legend" },
    series.map(({ name }, number) => {
      const start = at;
      at += textWidth(name, 12) + 44;
      return draw(
        "g",
        { class: `series s${number % 4}` },
        draw("line", { x1: start, x2: start + 16, y1: 12, y2: 12 }),
        draw("text", { x: start + 22, y: 16 }, name),
      );
    }),
  );
}

function drawReadout(series, x, y, picture, { left, width, height }) {
  const line = draw("line", { class: "cursor", y1: TOP, y2: height - BOTTOM });
  const text = draw("text", { class: "readout", x: width - RIGHT, y: 16, "text-anchor": "end" });
  const group = draw("g", { class: "hovered", visibility: "hidden" }, line, text);
  const steps = [...new Set(series.flatMap((one) => one.points.map(([at]) => at)))];
  picture.addEventListener("pointerleave", () => group.setAttribute("visibility", "hidden"));
  picture.addEventListener("pointermove", (event) => {
    const over = event.clientX - picture.getBoundingClientRect().left;
    const step = steps.reduce((best, one) => (Math.abs(x(one) - over) < Math.abs(x(best) - over) ? one : best));
    for (const end of ["x1", "x2"]) line.setAttribute(end, Math.max(x(step), left));
    const values = series.flatMap((one) => one.points.filter(([at]) => at === step).map(([, value]) => short(value)));
    text.textContent = `${short(step)}: ${values.join(" · ")}`;
    group.setAttribute("visibility", "visible");
  });
  return group;
}
