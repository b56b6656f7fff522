/** A table of weights as squares: cells on a canvas (there may be thousands), names as text beside and above. */

import { draw, make } from "../dom.js";
import { sayAttribute } from "../i18n.js";
import { decimal } from "../numbers.js";
import { clipped, fitted, picture, textWidth } from "./fitted.js";

const MOST_NAME = 110;
const GAP = 10;

/** Paints weights on a canvas in the accent colour, one square of `size` pixels each; `share` gives the strength
 *  of the colour for a weight, 0 to 1. */
export function paintCells(canvas, weights, size, share, gap = 0) {
  const ratio = size === 1 ? 1 : window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(weights[0].length * size * ratio));
  canvas.height = Math.max(1, Math.round(weights.length * size * ratio));
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  weights.forEach((row, down) =>
    row.forEach((weight, across) => {
      pen.globalAlpha = share(weight);
      pen.fillRect(across * size, down * size, size - gap, size - gap);
    }),
  );
}

/** The one scale of attention, on this page and in reports: the root of the weight, so that small weights are seen and equal
 *  weights look equal in every picture. */
export const attentionShade = (weight) => Math.sqrt(Math.min(Math.max(weight, 0), 1));

const TICKS = [0, 0.05, 0.25, 0.5, 1];

const rounded = (value) => String(+value.toFixed(2)).replace("-", "−");

/** What the colours mean: a strip from the least to the most. `at` gives the place of a number along it, `write` its letters. */
export function legend(label, ticks = TICKS, at = attentionShade, write = rounded) {
  const tick = (value) => make("span", { class: "legend-tick", variables: { "--at": at(value) } }, write(value));
  return make(
    "div",
    { class: "legend-strip" },
    make("span", { class: "note", say: label }),
    make("div", { class: "legend-scale" }, make("div", { class: "legend-colours" }), ticks.map(tick)),
  );
}

/** The legend of cosines from the least one on. */
export function cosineLegend(least) {
  return legend("legend.cosine", [least, (least + 1) / 2, 1], strength(1, least));
}

/** How strong a weight is between the least and the most. */
export function strength(most, least = 0) {
  return (weight) => Math.min(Math.max((weight - least) / (most - least || 1), 0), 1);
}

/** From the least to the greatest of shares, with the even share in the middle: what is nearly even looks so. */
export const aroundEven = (least, even, greatest) => (weight) =>
  strength(even, least)(Math.min(weight, even)) / 2 + strength(greatest, even)(Math.max(weight, even)) / 2;

/** `numbers` writes them into the cells where there is room; `biggest` is the largest side of a cell. */
export function heatMap(weights, rows, columns, { label, share = strength(1), numbers = false, biggest = 34 } = {}) {
  const readout = make("p", { class: "readout", "aria-hidden": "true" });
  const chart = fitted((width) => {
    const left = Math.min(MOST_NAME, Math.max(...rows.map((name) => textWidth(name)))) + GAP;
    const widest = Math.max(...columns.map((name) => textWidth(name)));
    const size = Math.max(9, Math.min(biggest, (width - left - 4) / columns.length));
    const top = fits(widest, size) ? 22 : Math.min(MOST_NAME, widest) + GAP;
    const [wide, high] = [left + size * columns.length + 4, top + size * rows.length + 4];
    const box = pixels({ left, top, width: size * columns.length, height: size * rows.length });
    const canvas = make("canvas", { class: "cells", "aria-hidden": "true", variables: box });
    paintCells(canvas, weights, size, share, 1);
    const over = picture(wide, high, label);
    const names = drawNames(rows, columns, left, top, size);
    const frame = draw("rect", { class: "frame", width: size - 1, height: size - 1, visibility: "hidden" });
    over.append(...names.rows, ...names.columns, frame);
    if (numbers && size >= 30) over.append(...drawNumbers(weights, left, top, size, share));
    follow(over, { left, top, size, rows, columns }, (row, column) => {
      mark(names, frame, { left, top, size }, row, column);
      const cell = row === null ? "" : `${rows[row]} → ${columns[column]}: ${decimal(weights[row][column])}`;
      readout.textContent = cell;
    });
    return make("div", { class: "heat-map", variables: pixels({ width: wide, height: high }) }, canvas, over);
  });
  chart.classList.add("scrolls");
  chart.tabIndex = 0; // wide ones are moved by keys
  chart.setAttribute("role", "group");
  sayAttribute(chart, "aria-label", ...[label].flat());
  return make("div", {}, chart, readout);
}

const pixels = (sizes) => Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, `${size}px`]));

/** Short names, such as single Chinese characters, need not be turned. */
const fits = (width, size) => width < size - 1;

function drawNames(rows, columns, left, top, size) {
  const letters = { "font-size": `${Math.min(13, size)}px` };
  return {
    rows: rows.map((name, row) => {
      const y = top + size * (row + 0.5) + 4;
      return draw("text", { x: left - 6, y, "text-anchor": "end", variables: letters }, clipped(name, MOST_NAME));
    }),
    columns: columns.map((name, column) => {
      const x = left + size * (column + 0.5);
      if (fits(textWidth(name, Math.min(13, size)), size)) return draw("text", { x, y: top - 7, "text-anchor": "middle", variables: letters }, name);
      const turned = { x: x + 4, y: top - 6, transform: `rotate(-90 ${x + 4} ${top - 6})`, variables: letters };
      return draw("text", turned, clipped(name, MOST_NAME));
    }),
  };
}

const drawNumbers = (weights, left, top, size, share) =>
  weights.flatMap((row, down) =>
    row.map((weight, across) => {
      const kind = share(weight) > 0.65 ? "cell-number on-dark" : "cell-number";
      const [x, y] = [left + size * (across + 0.5), top + size * (down + 0.5) + 4];
      return draw("text", { class: kind, x, y, "text-anchor": "middle" }, decimal(weight, 2));
    }),
  );

/** Tells which cell the pointer is over. */
function follow(over, { left, top, size, rows, columns }, tell) {
  over.addEventListener("pointermove", (event) => {
    const box = over.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - top) / size);
    const column = Math.floor((event.clientX - box.left - left) / size);
    const inside = row >= 0 && column >= 0 && row < rows.length && column < columns.length;
    if (inside) tell(row, column);
    else tell(null, null);
  });
  over.addEventListener("pointerleave", () => tell(null, null));
}

function mark(names, frame, { left, top, size }, row, column) {
  names.rows.forEach((name, place) => name.classList.toggle("linked", place === row));
  names.columns.forEach((name, place) => name.classList.toggle("linked", place === column));
  frame.setAttribute("visibility", row === null ? "hidden" : "visible");
  if (row === null) return;
  frame.setAttribute("x", left + size * column);
  frame.setAttribute("y", top + size * row);
}
