/** Documents in a plane, a colour for each group, with the groups' names where they are. */

import { draw } from "../dom.js";
import { t } from "../i18n.js";
import { fitted, picture } from "./fitted.js";
import { placeNames, stretched } from "./scatter.js";

/** `points`: { x, y, text, topic }; `names`: Map of topic to { words, say }, `say` where the page has words for it. `onpoint(point or null)` hears what the pointer is at.
 *  `marked(topic)` of the result singles one group out. */
export function clusterMap(points, names, { label, onpoint }) {
  let chosen = null;
  const groups = new Map();
  const box = fitted((width) => {
    const height = Math.min(420, Math.max(240, width * 0.6));
    const place = stretched(points, width, height);
    const spots = points.map(place);
    const dots = points.map((point, number) => drawDot(point, spots[number], points.length, onpoint));
    groups.clear();
    dots.forEach((dot, number) => groups.set(points[number].topic, [...(groups.get(points[number].topic) ?? []), dot]));
    const chart = picture(width, height, label, { class: "clusters" }, dots, drawNames(points, spots, names, width, height));
    mark();
    return chart;
  });
  function mark() {
    for (const [topic, dots] of groups) for (const dot of dots) dot.classList.toggle("faint", chosen !== null && topic !== chosen);
  }
  return {
    box,
    marked(topic) {
      chosen = topic;
      mark();
    },
  };
}

export const kindOf = (topic) => (topic < 0 ? "none" : `c${topic % 8}`);

function drawDot(point, { x, y }, count, onpoint) {
  const dot = draw("circle", { class: `dot ${kindOf(point.topic)}`, cx: x, cy: y, r: count > 400 ? 2.5 : 4 });
  dot.addEventListener("pointerenter", () => onpoint(point));
  dot.addEventListener("pointerleave", () => onpoint(null));
  return dot;
}

/** In the middle of each group, the largest first; those without room are in the list only. */
function drawNames(points, spots, names, width, height) {
  const topics = [...names.keys()].filter((topic) => topic >= 0);
  const middles = topics.map((topic) => {
    const mine = spots.filter((_, number) => points[number].topic === topic);
    const mean = (name) => mine.reduce((sum, spot) => sum + spot[name], 0) / mine.length;
    return { x: mean("x"), y: mean("y") };
  });
  const written = ({ words, say }) => (say ? t(...[say].flat()) : words);
  const places = placeNames(topics.map((topic) => ({ label: written(names.get(topic)) })), middles, width, height);
  return topics.map((topic, number) => {
    const place = places[number];
    const { words, say } = names.get(topic);
    const looks = { class: `cluster-name ${kindOf(topic)}`, x: place?.x, y: place?.y, "text-anchor": place?.anchor, say };
    return place && draw("text", looks, say ? undefined : words);
  });
}
