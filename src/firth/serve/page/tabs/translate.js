/** Translate: the best few translations, and which source words each target word looked at. */

import { heatMap, strength } from "../charts/heat_map.js";
import { make } from "../dom.js";
import { decimal } from "../numbers.js";
import { named, python } from "../snippets.js";
import { joinWords } from "../token_words.js";

/** Translations as buttons; the one that is pressed is aligned below. */
function candidates(found, onpick) {
  const buttons = found.map(({ text, score }, number) =>
    make(
      "button",
      { type: "button", class: "candidate", "aria-pressed": "false", onclick: () => pick(number) },
      make("span", { class: "candidate-text" }, text),
      make("span", { class: "note" }, decimal(score, 2)),
    ),
  );
  function pick(number) {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === number)));
    onpick(found[number].text);
  }
  return { list: make("ol", { class: "candidates" }, buttons.map((button) => make("li", {}, button))), pick };
}

function showAlignment(answer, into) {
  const { source, target, weights } = joinWords(answer);
  const share = strength(Math.max(...weights.flat()));
  into.append(
    make("h3", { say: "translate.alignment" }),
    make("p", { class: "note", say: "translate.alignment.how" }),
    heatMap(weights, target, source, { label: "translate.alignment", share, biggest: 40 }),
  );
}

function showTranslations({ translations }, { text }, tool) {
  const into = make("div", { class: "part" });
  const align = (target) => {
    const library = `print(model.attention(${python(text)}, ${python(target)}).alignment)`;
    return tool.follow("/alignment", { text, target }, into, (answer) => showAlignment(answer, into), library);
  };
  const can = tool.model.abilities.includes("alignment");
  const { list, pick } = candidates(translations[0], (target) => can && align(target));
  tool.output.append(list);
  if (translations[0].length > 0) pick(0);
  return into;
}

const go = {
  id: "translate",
  ability: "translate",
  route: "/translate",
  button: "translate.go",
  hint: "translate.hint",
  fields: [
    { name: "text", kind: "area", label: "translate.text", example: "translate" },
    { name: "nbest", kind: "number", label: "translate.nbest", value: 3, min: 1, max: 20 },
    { name: "beams", kind: "number", label: "translate.beams", value: 5, min: 1, max: 20 },
  ],
  body: ({ text, beams, nbest }) => ({ texts: [text], beams, nbest }),
  library: ({ text, beams, nbest }) => `print(model.translations([${python(text)}], ${named({ beams, nbest })}))`,
  show: showTranslations,
};

export const translate = {
  id: "translate",
  title: "tab.translate",
  lead: "translate.lead",
  tools: [go],
  suits: ({ abilities }) => abilities.includes("translate"),
};
