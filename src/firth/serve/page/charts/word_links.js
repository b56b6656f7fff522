/** Who looks at whom: the words twice, lines between them as strong as the weights. One word can be singled out. */

import { draw, make } from "../dom.js";
import { percent } from "../numbers.js";
import { attentionShade } from "./heat_map.js";
import { clipped, fitted, picture, textWidth } from "./fitted.js";

const LINE = 24;
const FAINTEST = 0.02; // lighter lines are not seen and only cost time

/** `weights[i][j]`: how much word i looks at word j. */
export function wordLinks(weights, words, label) {
  return fitted((width) => {
    const wide = Math.min(width, 420);
    const longest = Math.max(...words.map((word) => textWidth(word)));
    const [column, height] = [Math.min(130, wide * 0.34, longest + 12), words.length * LINE + 8];
    const middle = (place) => 4 + LINE * (place + 0.5);
    const links = picture(wide, height, label, { class: "links", role: "group" });
    const lines = drawLines(weights, column + 6, wide - column - 6, middle);
    const left = words.map((word, place) => drawWord(word, column, middle(place), "end", column));
    const right = words.map((word, place) => drawWord(word, wide - column, middle(place), "start", column));
    const single = (place) => singleOut(links, { weights, lines, left, right }, place);
    left.forEach((word, place) => {
      word.setAttribute("tabindex", "0");
      word.setAttribute("role", "button");
      word.setAttribute("aria-label", strongest(weights[place], words, words[place]));
      for (const event of ["pointerenter", "focus"]) word.addEventListener(event, () => single(place));
      for (const event of ["pointerleave", "blur"]) word.addEventListener(event, () => single(null));
    });
    links.append(draw("g", { class: "threads" }, lines.map(({ line }) => line)), ...left, ...right);
    return make("div", {}, links);
  });
}

function drawLines(weights, x1, x2, middle) {
  return weights.flatMap((row, from) =>
    row.flatMap((weight, to) => {
      if (weight < FAINTEST) return [];
      const half = (x1 + x2) / 2;
      const path = `M${x1} ${middle(from)} C${half} ${middle(from)} ${half} ${middle(to)} ${x2} ${middle(to)}`;
      const strength = { "--weight": attentionShade(weight).toFixed(3) };
      return [{ from, to, line: draw("path", { d: path, variables: strength }) }];
    }),
  );
}

function drawWord(word, x, y, anchor, room) {
  const left = anchor === "end" ? x - room + 4 : x - 4;
  return draw(
    "g",
    { class: "link-word" },
    draw("rect", { x: left, y: y - LINE / 2 + 1, width: room, height: LINE - 2, rx: 4 }),
    draw("text", { x, y: y + 4.5, "text-anchor": anchor }, clipped(word, room - 8)),
  );
}

/** Only one word's lines, and on the right how much of its look each word gets. */
function singleOut(links, { weights, lines, left, right }, place) {
  links.classList.toggle("single", place !== null);
  for (const { from, line } of lines) line.classList.toggle("linked", from === place);
  left.forEach((word, number) => word.classList.toggle("linked", number === place));
  right.forEach((word, number) => {
    const share = place === null ? 0 : attentionShade(weights[place][number]) * 0.7;
    word.firstChild.setAttribute("fill-opacity", share.toFixed(3));
  });
}

/** The three words that a word looks at most, for those who hear the page. */
function strongest(row, words, word) {
  const order = row.map((weight, place) => [weight, place]).sort(([one], [other]) => other - one);
  return `${word}: ${order
    .slice(0, 3)
    .map(([weight, place]) => `${words[place]} ${percent(weight)}`)
    .join(", ")}`;
}
