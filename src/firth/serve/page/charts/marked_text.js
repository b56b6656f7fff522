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
    const colour = `kind k${kinds.indexOf(kind) % 8}`;
    parts.push(cut(at, start), make("mark", { class: colour }, cut(start, end), make("small", {}, kind)));
    at = end;
  }
  return [...parts, cut(at)];
}
