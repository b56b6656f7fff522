/** Translate: the best few translations, and which source words each target word looked at. */

import { attentionShade, heatMap, legend } from "../charts/heat_map.js";
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
  into.append(
    make("h3", { say: "translate.alignment" }),
    make("p", { class: "note", say: "translate.alignment.how" }),
    legend("legend.attention"),
    heatMap(weights, target, source, { label: "translate.alignment", share: attentionShade, biggest: 40 }),
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
  slow: true,
  partly: ({ partial }, values, tool) => {
    const text = make("p", { class: "writing" }, partial[0] ?? "", make("span", { class: "caret", "aria-hidden": "true" }));
    tool.output.replaceChildren(text);
  },
  hint: "translate.hint",
  fields: [
    { name: "text", kind: "area", label: "translate.text", example: "translate" },
    { name: "nbest", kind: "number", label: "translate.nbest", value: 3, min: 1, max: 16 },
    { name: "beams", kind: "number", label: "translate.beams", value: 5, min: 1, max: 16 },
  ],
  // As many as are asked for need as many beams.
  body: ({ text, beams, nbest }) => ({ texts: [text], beams: Math.max(beams, nbest), nbest }),
  library: ({ text, beams, nbest }) => `print(model.translations([${python(text)}], ${named({ beams, nbest })}))`,
  show: showTranslations,
};

export const translate = {
  id: "translate",
  title: "tab.translate",
  lead: "translate.lead",
  how: "translate.how",
  story: "06-seq2seq-and-attention",
  tools: [go],
  suits: ({ abilities }) => abilities.includes("translate"),
};
