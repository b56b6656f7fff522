/** Charts are drawn for the width they have, so that letters keep their size on small screens. */

import { draw, make } from "../dom.js";

/** A box whose content `drawAt(width)` makes; drawn again when the width or the colours change. */
export function fitted(drawAt) {
  const box = make("div", { class: "chart" });
  let width = 0;
  const redraw = () => width > 0 && box.replaceChildren(drawAt(width));
  new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found === width) return;
    width = found;
    redraw();
  }).observe(box);
  const recolour = () => (box.isConnected ? redraw() : document.removeEventListener("firth-theme", recolour));
  document.addEventListener("firth-theme", recolour);
  return box;
}

/** An SVG of this size; `label` is what it shows, for those who hear the page. */
export function picture(width, height, label, properties, ...children) {
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return draw("svg", { ...size, role: "img", sayLabel: label, ...properties }, ...children);
}

const pen = document.createElement("canvas").getContext("2d");
/** How wide a text will be, about. */
export function textWidth(text, size = 13) {
  pen.font = `${size}px system-ui, "Noto Sans CJK SC", sans-serif`;
  return pen.measureText(text).width;
}

/** As much of a text as fits. */
export function clipped(text, width, size = 13) {
  if (textWidth(text, size) <= width) return text;
  const characters = Array.from(text);
  while (characters.length > 1 && textWidth(`${characters.join("")}…`, size) > width) characters.pop();
  return `${characters.join("")}…`;
}
