/** A text with stretches of it marked. */

import { make } from "../dom.js";
import { around } from "../text_pieces.js";

/** One stretch, from `start` to `end` in the server's count of characters. */
export function markOne(text, start, end) {
  const [before, inside, after] = around(text, start, end);
  return [before, make("mark", {}, inside), after];
}

/** Many: `spans` of { start, end, kind }, in order and apart; the name of the kind stands in the mark. */
export function markKinds(text, spans, kinds) {
  const characters = Array.from(text);
  const cut = (start, end) => characters.slice(start, end).join("");
  let at = 0;
  const parts = [];
  for (const { start, end, kind } of spans) {
    if (start < at) continue; // one within another: the first stays
    const colour = `kind c${kinds.indexOf(kind) % 8}`;
    parts.push(cut(at, start), make("mark", { class: colour }, cut(start, end), make("small", {}, kind)));
    at = end;
  }
  return [...parts, cut(at)];
}

/** Words of a question (`marks`, [start, end] each), the sentence that fits best (`best`) and, where there is one, the
 *  `answer`: each character belongs to the last of these that holds it. */
export function markWords(text, marks, best, answer = [0, 0]) {
  const characters = Array.from(text);
  const within = ([start, end], place) => start <= place && place < end;
  const kindAt = (place) =>
    within(answer, place) ? "said" : marks.some((mark) => within(mark, place)) ? "word" : "";
  const parts = [];
  let at = 0;
  while (at < characters.length) {
    const [kind, inside] = [kindAt(at), within(best, at)];
    let end = at + 1;
    while (end < characters.length && kindAt(end) === kind && within(best, end) === inside) end += 1;
    const piece = characters.slice(at, end).join("");
    const marked = kind === "" ? piece : make("mark", { class: kind }, piece);
    parts.push(inside ? make("span", { class: "best" }, marked) : marked);
    at = end;
  }
  return parts;
}
