/** Attention: all heads of all layers as small maps, one of them large, and lines between the words it links. */

import { heatMap, paintCells, strength } from "../charts/heat_map.js";
import { wordLinks } from "../charts/word_links.js";
import { make } from "../dom.js";
import { python } from "../snippets.js";
import { bareToken, slice } from "../text_pieces.js";

/** Tokens as they stand in the text where it is known which text is meant, otherwise without their marks. */
function wordsOf({ tokens, offsets, segments }, { text, second }) {
  return tokens.map((token, place) => {
    const [start, end] = offsets?.[place] ?? [0, 0];
    const source = !second.trim() ? text : segments ? [text, second.trim()][segments[place]] : "";
    return (end > start && slice(source ?? "", start, end).trim()) || bareToken(token);
  });
}

/** The weight that gets the full colour: the largest, but no less than four times an even share, so that a head
 *  that looks everywhere alike also seems so. */
const full = (weights) => Math.max(4 / weights.length, ...weights.map((row) => Math.max(...row)));

/** One button per head, one row per layer; `most` gives the weight of a head that gets the full colour. */
export function overview(weights, onpick, most = full) {
  const paint = () => {
    for (const { canvas, layer, head } of heads) {
      paintCells(canvas, weights[layer][head], 1, strength(most(weights[layer][head])));
    }
  };
  const heads = weights.flatMap((ofLayer, layer) =>
    ofLayer.map((_, head) => {
      const canvas = make("canvas", { class: "small-map", "aria-hidden": "true" });
      const names = { layer: layer + 1, head: head + 1 };
      const looks = { class: "head-button", "aria-pressed": "false", sayLabel: ["attention.head", names] };
      const onclick = () => pick(layer, head);
      return { layer, head, canvas, button: make("button", { type: "button", ...looks, onclick }, canvas) };
    }),
  );
  function pick(layer, head) {
    mark(layer, head);
    onpick(layer, head);
  }
  function mark(layer, head) {
    for (const one of heads) one.button.setAttribute("aria-pressed", String(one.layer === layer && one.head === head));
  }
  const recolour = () => (grid.isConnected ? paint() : document.removeEventListener("firth-theme", recolour));
  document.addEventListener("firth-theme", recolour);
  const grid = make(
    "div",
    { class: "heads", variables: { "--heads": weights[0].length }, role: "group", sayLabel: "attention.overview" },
    weights.map((_, layer) =>
      make(
        "div",
        { class: "head-row" },
        make("span", { class: "head-layer", say: ["attention.layer", { layer: layer + 1 }] }),
        heads.filter((one) => one.layer === layer).map((one) => one.button),
      ),
    ),
  );
  paint();
  return { grid, pick, mark };
}

function showAttention(answer, values, tool) {
  const words = wordsOf(answer, values);
  const large = make("div", { class: "part" });
  const { grid, pick } = overview(answer.weights, (layer, head) => {
    const weights = answer.weights[layer][head];
    large.replaceChildren(
      make("h3", { say: ["attention.head", { layer: layer + 1, head: head + 1 }] }),
      make("p", { class: "note", say: "attention.how" }),
      make(
        "div",
        { class: "side-by-side" },
        wordLinks(weights, words, full(weights), "attention.links"),
        heatMap(weights, words, words, { label: "attention.map", share: strength(full(weights)), biggest: 26 }),
      ),
    );
  });
  tool.output.append(make("div", { class: "scrolls" }, grid), large);
  pick(answer.weights.length - 1, 0);
}

const look = {
  id: "look",
  ability: "attention",
  route: "/attention",
  button: "attention.go",
  hint: "attention.hint",
  fields: [
    { name: "text", kind: "area", label: "attention.text", example: "attention" },
    { name: "second", kind: "text", label: "attention.second", value: "", more: true },
  ],
  body: ({ text, second }) => ({ text, second: second.trim() || null }),
  library: ({ text, second }) =>
    `maps = model.attention(${[text, ...(second.trim() ? [second.trim()] : [])].map(python).join(", ")})\nprint(maps)`,
  show: showAttention,
};

export const attention = {
  id: "attention",
  title: "tab.attention",
  lead: "attention.lead",
  tools: [look],
  suits: ({ abilities }) => abilities.includes("attention"),
};
