/** Fill the blank: guesses for masked words. A click on a word hides it, a click on a guess puts it in. */

import { bars } from "../charts/bars.js";
import { make } from "../dom.js";
import { percent } from "../numbers.js";
import { python } from "../snippets.js";
import { bareToken, pieces } from "../text_pieces.js";

/** The text as buttons: click a word to hide it, a mask to have its word back (if it was hidden here). */
function wordButtons(tool, box) {
  const { hidden } = tool;
  const text = tool.form.input("text").value;
  const parts = pieces(text, tool.model.mask);
  hidden.length = parts.filter((part) => part.mask).length;
  let maskNumber = -1;
  const button = (part, place) => {
    if (!part.word) return part.text;
    if (part.mask) maskNumber += 1;
    const number = maskNumber;
    const replace = (other) => {
      const changed = parts.map((one, at) => (at === place ? other : one.text)).join("");
      tool.form.set({ text: changed });
      if (changed.includes(tool.model.mask)) tool.run();
    };
    const onclick = () => {
      if (!part.mask) {
        hidden.splice(number + 1, 0, part.text);
        replace(tool.model.mask);
      } else if (hidden[number] !== undefined) replace(hidden.splice(number, 1)[0]);
    };
    return make("button", { type: "button", class: part.mask ? "word masked" : "word", onclick }, part.text);
  };
  box.replaceChildren(...parts.map(button));
}

/** Below the text: its words to click on. Hidden words are remembered in the order of the masks; a gap is a mask
 *  that was there before. */
function setup(tool) {
  const box = make("p", { class: "words", role: "group", sayLabel: "fill.click" });
  tool.hidden = [];
  let mask = tool.model.mask;
  const refresh = (event) => {
    if (event?.isTrusted) tool.hidden.length = 0; // typed: which mask stood for which word is not known any more
    wordButtons(tool, box);
  };
  tool.form.input("text").addEventListener("input", refresh);
  document.addEventListener("firth-language", refresh);
  tool.spec.modelChanged = () => {
    const input = tool.form.input("text");
    if (mask !== tool.model.mask) input.value = input.value.replaceAll(mask, tool.model.mask);
    mask = tool.model.mask;
    refresh();
  };
  tool.form.element.querySelector(".fields").append(make("p", { class: "note", say: "fill.click" }), box);
  refresh();
}

/** The text with the places numbered if there are several. */
function showMasks(masks, { text }, tool) {
  const mask = tool.model.mask;
  masks.forEach((guesses, number) => {
    const onpick = ({ label }) => {
      let seen = -1;
      const filled = pieces(text, mask).map((part) => (part.mask && (seen += 1) === number ? label : part.text));
      tool.hidden.splice(number, 1);
      tool.form.set({ text: filled.join("") });
      if (filled.includes(mask)) tool.run();
    };
    const rows = guesses.map((guess) => ({
      label: bareToken(guess.token),
      value: guess.probability,
      shown: percent(guess.probability),
      title: guess.text,
    }));
    if (masks.length > 1) tool.output.append(make("h3", { say: ["fill.blank", { number: number + 1 }] }));
    tool.output.append(bars(rows, { onpick, label: "fill.guesses" }));
  });
}

const guess = {
  id: "guess",
  ability: "fill",
  route: "/fill",
  button: "fill.go",
  hint: "fill.hint",
  fields: [
    { name: "text", kind: "area", label: "fill.text", example: "fill" },
    { name: "top", kind: "number", label: "form.top", value: 8, min: 1, max: 100, more: true },
  ],
  body: ({ text, top }) => ({ text, top }),
  library: ({ text, top }) => `print(model.fill(${python(text)}, top=${top}))`,
  setup,
  ready: ({ text }, { mask }) => text.includes(mask),
  show: ({ masks }, values, tool) => showMasks(masks, values, tool),
};

export const fill = {
  id: "fill",
  title: "tab.fill",
  lead: "fill.lead",
  how: "fill.how",
  story: "08-bert",
  tools: [guess],
  suits: ({ abilities }) => abilities.includes("fill"),
};
