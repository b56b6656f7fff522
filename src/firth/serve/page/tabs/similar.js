/** Similar: how similar the model finds each of some texts to each other, as a table of cosines. */

import { cosineLegend, heatMap, strength } from "../charts/heat_map.js";
import { make } from "../dom.js";
import { python } from "../snippets.js";
import { lines } from "../text_pieces.js";

const length = (vector) => Math.hypot(...vector) || 1;
const cosine = (one, other) =>
  one.reduce((sum, value, place) => sum + value * other[place], 0) / length(one) / length(other);

function showSimilar({ vectors }, { texts }, tool) {
  const cosines = vectors.map((one) => vectors.map((other) => cosine(one, other)));
  const numbers = vectors.map((_, place) => String(place + 1));
  // Cosines are all large in many models: what counts is which are larger, so colours begin at the least.
  const least = Math.min(0.95, ...cosines.flat());
  const share = strength(1, least);
  tool.output.append(
    cosineLegend(least),
    heatMap(cosines, numbers, numbers, { label: "similar.table", share, numbers: true, biggest: 56 }),
    make("ol", { class: "sentences" }, lines(texts).map((text) => make("li", {}, make("span", {}, text)))),
  );
}

const go = {
  id: "similar",
  ability: "encode",
  route: "/encode",
  button: "similar.go",
  hint: "similar.hint",
  fields: [{ name: "texts", kind: "area", label: "similar.texts", example: "similar", rows: 6 }],
  body: ({ texts }) => ({ texts: lines(texts) }),
  library: ({ texts }) => `print(firth.encode(model, ${python(lines(texts))}))`,
  show: showSimilar,
};

export const similar = {
  id: "similar",
  title: "tab.similar",
  lead: "similar.lead",
  how: "similar.how",
  guide: "guides/sentence-vectors",
  story: "08-bert",
  tools: [go],
  suits: ({ abilities, task }) => abilities.includes("encode") && !task,
};
