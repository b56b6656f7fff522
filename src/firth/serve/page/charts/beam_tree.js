/** The tree that a beam search grew: a column a step, lines to what each candidate goes on from. */

import { draw, make } from "../dom.js";
import { decimal } from "../numbers.js";
import { clipped, picture, textWidth } from "./fitted.js";

const [COLUMN, ROW, ROOM] = [114, 30, 86];

/** `nodes`: { number, parent, step, says, score, fate }; 0 is the prompt. `best` is the winner's log probability. */
export function beamTree(nodes, prompt, best, { dropped, label }) {
  const shown = dropped ? nodes : nodes.filter((node) => node.fate !== "dropped");
  const root = { number: 0, step: 0, says: clippedStart(prompt), fate: "prompt", score: 0 };
  const placed = layOut(root, shown);
  const winners = pathTo(placed, findWinner(shown, best));
  const width = (1 + Math.max(0, ...shown.map((node) => node.step))) * COLUMN + 24;
  const height = (1 + Math.max(...placed.map((node) => node.row))) * ROW + 16;
  const at = new Map(placed.map((node) => [node.number, node]));
  const grown = placed.filter((node) => node.number !== 0);
  const tree = picture(
    width,
    height,
    label,
    { class: "tree" },
    grown.map((node) => drawBranch(at.get(node.parent), node, winners)),
    placed.map((node) => drawNode(node, winners)),
  );
  return make("div", { class: "chart scrolls", tabindex: "0", role: "group", sayLabel: label }, tree);
}

/** A column a step: its candidates in the order of those that they go on from, around the middle of the picture. */
function layOut(root, nodes) {
  const columns = [[root]];
  for (const node of nodes) (columns[node.step] ??= []).push(node);
  const highest = Math.max(...columns.map((column) => column.length));
  const rows = new Map();
  return columns.flatMap((column) => {
    const top = (highest - column.length) / 2;
    const order = [...column].sort((one, other) => (rows.get(one.parent) ?? 0) - (rows.get(other.parent) ?? 0));
    return order.map((node, place) => {
      rows.set(node.number, top + place);
      return { ...node, row: top + place };
    });
  });
}

/** The finished candidate whose log probability is the best continuation's. */
function findWinner(nodes, best) {
  const finished = nodes.filter((node) => node.fate === "finished");
  const off = (node) => Math.abs(node.score - best);
  return finished.reduce((found, node) => (found === null || off(node) < off(found) ? node : found), null);
}

function pathTo(placed, winner) {
  const at = new Map(placed.map((node) => [node.number, node]));
  const path = new Set([0]);
  for (let node = at.get(winner?.number); node && node.number !== 0; node = at.get(node.parent)) path.add(node.number);
  return path;
}

const x = (node) => 12 + node.step * COLUMN;
const y = (node) => 8 + (node.row + 0.5) * ROW;

function drawBranch(parent, node, winners) {
  const [x1, x2] = [x(parent) + ROOM - 4, x(node) - 4];
  const path = `M${x1} ${y(parent)} C${(x1 + x2) / 2} ${y(parent)} ${(x1 + x2) / 2} ${y(node)} ${x2} ${y(node)}`;
  return draw("path", { class: `branch ${node.fate}${winners.has(node.number) ? " best" : ""}`, d: path });
}

function drawNode(node, winners) {
  const says = node.says.trim() === "" ? (node.fate === "finished" ? "■" : "␣") : node.says.trim();
  const score = node.number === 0 ? "" : ` (${decimal(node.score, 2)})`;
  return draw(
    "g",
    { class: `node ${node.fate}${winners.has(node.number) ? " best" : ""}` },
    draw("rect", { x: x(node) - 4, y: y(node) - 11, width: ROOM, height: 22, rx: 5 }),
    draw("text", { x: x(node) + 2, y: y(node) + 4.5 }, clipped(says, ROOM - 12)),
    draw("title", {}, `${says}${score}`),
  );
}

/** The end of the prompt is what the tree goes on from. */
function clippedStart(prompt) {
  const characters = Array.from(prompt.trim());
  if (textWidth(prompt.trim()) <= ROOM - 16) return prompt.trim();
  while (characters.length > 1 && textWidth(`…${characters.join("")}`) > ROOM - 18) characters.shift();
  return `…${characters.join("")}`;
}
