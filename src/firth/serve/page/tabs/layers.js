/** Layers: how much a task takes from each layer of its base (the scalar mix of ELMo, Peters et al. 2018). */

import { bars } from "../charts/bars.js";
import { make } from "../dom.js";
import { heading } from "../heading.js";
import { t } from "../i18n.js";
import { decimal, percent } from "../numbers.js";
import { copyBar } from "../snippets.js";

const nameOf = (layer) => (layer === 0 ? t("layers.tokens") : t("layers.layer", { layer }));

/** A task may mix the layers in more than one place: below and above its own body. */
const mixesOf = ({ mixes, layer_weights: only }) => mixes ?? (only ? [only] : []);

function showMix({ place, weights, scale }) {
  const rows = weights.map((value, layer) => ({ label: nameOf(layer), value, shown: percent(value) }));
  const facts = [make("span", { say: ["layers.place", { place }] }), make("span", {}, `γ ${decimal(scale)}`)];
  return [
    make("p", { class: "facts" }, facts),
    bars(rows, { label: "layers.bars", most: Math.max(...weights), even: true }),
  ];
}

function showModel(model) {
  return make(
    "section",
    { class: "card" },
    make("h2", {}, model.name),
    make("p", { class: "facts" }, model.kind),
    mixesOf(model).flatMap(showMix),
  );
}

export const layers = {
  id: "layers",
  title: "tab.layers",
  suits: (model) => mixesOf(model).length > 0,
  build(panel, models) {
    const cards = make("div", { class: "cards" });
    const fillCards = () => cards.replaceChildren(...models.filter(layers.suits).map(showModel));
    document.addEventListener("firth-language", fillCards);
    fillCards();
    panel.replaceChildren(
      make("header", { class: "head" }, heading("tab.layers", "layers.lead")),
      cards,
      copyBar("/models"),
    );
  },
};
