/** Attention: all heads of all layers as small maps, one of them large, and lines between the words it links. */

import { attentionShade, heatMap, legend, paintCells } from "../charts/heat_map.js";
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

/** One button per head, one row per layer; all of them in one scale. */
export function overview(weights, onpick, shade = attentionShade) {
  const paint = () => {
    for (const { canvas, layer, head } of heads) {
      paintCells(canvas, weights[layer][head], 1, shade);
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

const zeros = (size) => Array.from({ length: size }, () => new Array(size).fill(0));

/** The mean of some maps. */
function mean(maps) {
  const sum = zeros(maps[0].length);
  for (const map of maps) map.forEach((row, i) => row.forEach((weight, j) => (sum[i][j] += weight / maps.length)));
  return sum;
}

/** Attention rollout (Abnar and Zuidema 2020): the layers one after the other, each half passed on unchanged. */
function rollout(weights) {
  const mixed = weights.map((heads) =>
    mean(heads).map((row, i) => row.map((weight, j) => weight / 2 + (i === j ? 0.5 : 0))),
  );
  return mixed.reduce((before, layer) =>
    layer.map((row) => row.map((_, j) => row.reduce((sum, weight, k) => sum + weight * before[k][j], 0))),
  );
}

function showAttention(answer, values, tool) {
  const words = wordsOf(answer, values);
  const large = make("div", { class: "part" });
  const show = (weights, title) =>
    large.replaceChildren(
      make("h3", { say: title }),
      make("p", { class: "note", say: "attention.point" }),
      legend("legend.attention"),
      make(
        "div",
        { class: "side-by-side" },
        wordLinks(weights, words, "attention.links"),
        heatMap(weights, words, words, { label: "attention.map", share: attentionShade, biggest: 26 }),
      ),
    );
  const whole = [
    ["attention.mean", () => mean(answer.weights.flat())],
    ["attention.rollout", () => rollout(answer.weights)],
  ].map(([title, weights]) => {
    const onclick = () => choose(title, weights());
    return make("button", { type: "button", class: "plain", "aria-pressed": "false", say: title, onclick });
  });
  const press = (chosen) => whole.forEach((one) => one.setAttribute("aria-pressed", String(one === chosen)));
  const { grid, pick, mark } = overview(answer.weights, (layer, head) => {
    press(null);
    show(answer.weights[layer][head], ["attention.head", { layer: layer + 1, head: head + 1 }]);
  });
  function choose(title, weights) {
    mark();
    press(whole[title === "attention.mean" ? 0 : 1]);
    show(weights, title);
  }
  tool.output.append(make("div", { class: "scrolls" }, grid), make("div", { class: "together" }, whole), large);
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
  how: "attention.how",
  story: "07-transformer",
  tools: [look],
  suits: ({ abilities }) => abilities.includes("attention"),
};
