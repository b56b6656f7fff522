/** Points in the plane with their names. Both axes have one scale: distances are what such a picture says. */

import { draw } from "../dom.js";
import { fitted, picture, textWidth } from "./fitted.js";

const MARGIN = 34;
const SIZE = 13;

/** Where points of any range lie in a picture of some width. */
export function plane(points, width, mostHeight = 460) {
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const [across, up] = [Math.max(right - left, 1e-9), Math.max(high - low, 1e-9)];
  const wide = width - 2 * MARGIN;
  const scale = Math.min(wide / across, (mostHeight - 2 * MARGIN) / up);
  const height = Math.max(scale * up + 2 * MARGIN, Math.min(240, width * 0.6));
  return {
    height,
    place: ({ x, y }) => ({
      x: width / 2 + (x - (left + right) / 2) * scale,
      y: height / 2 - (y - (low + high) / 2) * scale,
    }),
  };
}

/** The same with a scale for each axis: all of the picture is used. */
export function stretched(points, width, height) {
  const along = (name, room) => {
    const values = points.map((point) => point[name]);
    const [low, size] = [Math.min(...values), Math.max(...values) - Math.min(...values) || 1];
    return (value) => ((value - low) / size) * room;
  };
  const [x, y] = [along("x", width - 3 * MARGIN), along("y", height - 2 * MARGIN)];
  return (point) => ({ x: 1.5 * MARGIN + x(point.x), y: height - MARGIN - y(point.y) });
}

/** `points`: { x, y, label, title }; `onpoint(number or null)` hears which one the pointer is at. */
export function scatter(points, { label, onpoint } = {}) {
  return fitted((width) => {
    const { height, place } = plane(points, width);
    const spots = points.map(place);
    const names = placeNames(points, spots, width, height);
    const drawn = points.map((point, number) => drawPoint(point, spots[number], names[number]));
    drawn.forEach((group, number) => {
      group.addEventListener("pointerenter", () => onpoint?.(number));
      group.addEventListener("pointerleave", () => onpoint?.(null));
    });
    return picture(width, height, label, { role: "group" }, drawn);
  });
}

function drawPoint(point, { x, y }, name) {
  return draw(
    "g",
    { class: name === null ? "point crowded" : "point", role: "img", "aria-label": point.title ?? point.label },
    draw("circle", { class: "target", cx: x, cy: y, r: 14 }),
    draw("circle", { class: "dot", cx: x, cy: y, r: 4.5 }),
    point.title && draw("title", {}, point.title),
    draw("text", { x: name?.x ?? x + 9, y: name?.y ?? y - 9, "text-anchor": name?.anchor ?? "start" }, point.label),
  );
}

/** A place for each name where it covers neither points nor other names; null where there is none
 *  (such a name shows while one is at its point). `kept` are further places to be kept free. */
export function placeNames(points, spots, width, height, kept = []) {
  const taken = [...spots, ...kept].map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 }));
  return points.map((point, number) => {
    const { x, y } = spots[number];
    const wide = textWidth(point.label, SIZE) + 4;
    const sides = [
      { anchor: "start", x: x + 9, y: y + 4.5 },
      { anchor: "end", x: x - 9, y: y + 4.5 },
      { anchor: "middle", x, y: y - 10 },
      { anchor: "middle", x, y: y + 19 },
      { anchor: "start", x: x + 6, y: y - 8 },
      { anchor: "end", x: x - 6, y: y - 8 },
      { anchor: "start", x: x + 6, y: y + 17 },
      { anchor: "end", x: x - 6, y: y + 17 },
      { anchor: "middle", x, y: y - 16 },
      { anchor: "middle", x, y: y + 25 },
    ];
    for (const side of sides) {
      const left = side.x - { start: 0, middle: wide / 2, end: wide }[side.anchor];
      const box = { left, right: left + wide, top: side.y - SIZE, bottom: side.y + 4 };
      const inside = left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
      if (!inside || taken.some((one) => overlap(one, box))) continue;
      taken.push(box);
      return side;
    }
    return null;
  });
}

const overlap = (one, other) =>
  one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
