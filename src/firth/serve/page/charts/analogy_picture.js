/** An analogy as arrows: the step from the first word to the second, taken from the third. */

import { draw, freshId } from "../dom.js";
import { fitted, picture } from "./fitted.js";
import { placeNames, stretched } from "./scatter.js";

/** `points`: { word, x, y } of first, second, third and the answer. */
export function analogyPicture(points) {
  const [first, second, third, answer] = points;
  // Where the step leads exactly; the answer is the nearest word to it.
  const goal = { x: third.x + second.x - first.x, y: third.y + second.y - first.y };
  return fitted((width) => {
    // Each axis has its own scale: arrows that are parallel stay so, and there is room for the words.
    const height = Math.min(280, Math.max(200, width * 0.4));
    const place = stretched([...points, goal], width, height);
    const tip = freshId("tip");
    const arrow = (from, to, kind) => drawArrow(place(from), place(to), kind, tip);
    const spots = points.map(place);
    const lines = [[first, second], [third, goal], [goal, answer]];
    const free = lines.flatMap(([from, to]) => along(place(from), place(to)));
    const names = placeNames(points.map(({ word }) => ({ label: word })), spots, width, height, free);
    const words = points.map((point, number) => drawWord(point.word, spots[number], names[number], point === answer));
    return picture(
      width,
      height,
      ["words.analogy.picture", nameAll(points)],
      {},
      draw("defs", {}, drawTip(tip)),
      draw("g", { class: "arrows" }, arrow(first, second, "step"), arrow(third, goal, "step again")),
      drawGap(place(goal), place(answer)),
      words,
    );
  });
}

const nameAll = ([first, second, third, answer]) => ({
  first: first.word,
  second: second.word,
  third: third.word,
  answer: answer.word,
});

function drawTip(id) {
  const size = { viewBox: "0 0 9 9", refX: 8, refY: 4.5, markerWidth: 9, markerHeight: 9 };
  const shape = draw("path", { d: "M0 0 L9 4.5 L0 9 Z", class: "tip" });
  return draw("marker", { id, ...size, markerUnits: "userSpaceOnUse", orient: "auto" }, shape);
}

/** A line that ends a little before the point it goes to. */
function drawArrow(from, to, kind, tip) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const cut = Math.min(9, length / 3) / length;
  const [dx, dy] = [(to.x - from.x) * cut, (to.y - from.y) * cut];
  const ends = { x1: from.x + dx, y1: from.y + dy, x2: to.x - dx, y2: to.y - dy };
  return draw("line", { class: kind, ...ends, "marker-end": `url(#${tip})` });
}

/** From where the step leads to the word that is nearest to it. */
const drawGap = (goal, answer) =>
  draw(
    "g",
    { class: "arrows" },
    draw("line", { class: "gap", x1: goal.x, y1: goal.y, x2: answer.x, y2: answer.y }),
    draw("circle", { class: "goal", cx: goal.x, cy: goal.y, r: 4 }),
  );

/** Places on a line, close enough that no name fits between. */
function along(from, to) {
  const steps = Math.max(1, Math.ceil(Math.hypot(to.x - from.x, to.y - from.y) / 10));
  return Array.from({ length: steps + 1 }, (_, step) => ({
    x: from.x + ((to.x - from.x) * step) / steps,
    y: from.y + ((to.y - from.y) * step) / steps,
  }));
}

function drawWord(word, { x, y }, name, isAnswer) {
  const at = name ?? { x, y: y - 12, anchor: "middle" };
  return draw(
    "g",
    { class: isAnswer ? "point answer-word" : "point" },
    draw("circle", { class: "dot", cx: x, cy: y, r: 5 }),
    draw("text", { x: at.x, y: at.y, "text-anchor": at.anchor }, word),
  );
}
