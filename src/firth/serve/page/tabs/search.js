/** Search: passages of an index that answer a question, where an answer tagger is served with the answer marked; or images near an
 *  image. Below it what the index holds as a whole. */

import { ask } from "../api.js";
import { markWords } from "../charts/marked_text.js";
import { make } from "../dom.js";
import { decimal, percent } from "../numbers.js";
import { named, python } from "../snippets.js";
import { duplicates, topics } from "./collection.js";

const MOST_ASKED = 5;
const LEAST_SURE = 0.2; // less probable answers mislead more than they help

const facts = ({ words, cosine }) => [
  words !== null && make("span", { say: ["search.words", { score: decimal(words, 2) }] }),
  cosine !== null && make("span", { say: ["search.cosine", { score: decimal(cosine, 3) }] }),
];

/** A passage: its name, its scores, and its text with the best sentence and the words of the question. */
function passage(hit) {
  const text = make("p", { class: "passage" }, ...markWords(hit.text, hit.marks, hit.best));
  const said = make("p", { class: "note", hidden: true });
  const head = make("p", { class: "found" }, make("strong", { title: hit.id }, shortName(hit.id)), ...facts(hit));
  return { element: make("li", {}, head, text, said), said, text };
}

/** Asks the first model that answers questions about each of the first passages. */
async function markAnswers(question, hits, shown, reads, signal) {
  const { models } = await ask("/models");
  const same = (model) => !reads || !model.reads || model.reads === reads;
  const tagger = models.find((model) => model.abilities.includes("predict") && model.task === "answer" && same(model));
  if (tagger === undefined) return;
  const questions = hits.slice(0, MOST_ASKED).map(({ text }) => ({ question, passage: text }));
  const { predictions } = await ask("/predict", { questions, model: tagger.name }, signal);
  predictions.forEach(({ answer, start, end, best }, place) => {
    if (answer === "") return;
    const sure = best?.find((one) => one.answer === answer)?.probability;
    if (sure !== undefined && sure < LEAST_SURE) return;
    const { text, said } = shown[place];
    text.replaceChildren(...markWords(hits[place].text, hits[place].marks, hits[place].best, [start, end]));
    said.hidden = false;
    said.replaceChildren(
      make("span", { say: "search.answer" }),
      " ",
      make("strong", {}, answer),
      sure === undefined ? "" : ` ${percent(sure)}`,
    );
  });
}

/** The end of a path: its folder often says what is in it. */
const shortName = (path) => path.trim().split(/[\\/]/u).slice(-2).join("/");

/** The same in two lines where it does not fit into one. */
const imageName = (path) => shortName(path).split("/").flatMap((part, place) => (place ? ["/", make("wbr"), part] : [part]));

/** Images side by side, the nearest first; of one that is not there any more the name alone. */
function showImages(found, file, tool) {
  const one = ({ text, cosine, image }) =>
    make(
      "li",
      {},
      image ? make("img", { src: `data:image/png;base64,${image}`, alt: "", width: 96, height: 96 }) : make("span", { class: "gone", say: "search.gone" }),
      make("span", { class: "image-name", title: text }, ...imageName(text)),
      make("span", { class: "note", say: ["search.cosine", { score: decimal(cosine, 3) }] }),
    );
  const asked = make("img", { class: "asked", alt: "", width: 96, height: 96 });
  showFile(file, asked);
  tool.output.append(
    make("div", { class: "asked-image" }, asked, make("p", { class: "note", say: file.isExample ? "search.example" : ["form.file", { name: file.name }] })),
    make("ol", { class: "images" }, found.map(one)),
  );
}

/** Policies allow pictures as data, not as blobs. */
function showFile(file, picture) {
  const reader = new FileReader();
  reader.addEventListener("load", () => picture.setAttribute("src", reader.result));
  reader.readAsDataURL(file);
}

function showFound({ found }, { question, image }, tool) {
  if (found.length === 0) {
    tool.output.append(make("p", { class: "note", say: "search.nothing" }));
    return;
  }
  if (tool.model.images) {
    showImages(found, image, tool);
    return;
  }
  const shown = found.map(passage);
  tool.output.append(make("ol", { class: "passages" }, shown.map(({ element }) => element)));
  const { signal } = tool.asked;
  markAnswers(question, found, shown, tool.model.reads, signal).catch((error) => {
    if (!signal.aborted) console.error(error);
  });
}

const conditions = (where) =>
  where
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);

const go = {
  id: "search",
  ability: "search",
  route: ({ images }, { top, where }) => (images ? `/search?${new URLSearchParams({ top, where: conditions(where).join(",") })}` : "/search"),
  button: "search.go",
  hint: "search.hint",
  fields: [
    { name: "question", kind: "text", label: "search.question", example: "search", when: ({ images }) => !images },
    { name: "image", kind: "file", label: "image.file", example: "image", accept: "image/png,image/jpeg,image/webp", when: ({ images }) => images },
    { name: "top", kind: "number", label: "form.top", value: 5, min: 1, max: 100, more: true },
    {
      name: "mode",
      kind: "choice",
      label: "search.mode",
      value: "auto",
      choices: ["auto", "words", "vectors"].map((mode) => [mode, `search.mode.${mode}`]),
      more: true,
      when: ({ images }) => !images,
    },
    { name: "where", kind: "text", label: "search.where", value: "", more: true },
  ],
  body: ({ question, image, top, mode, where }, { images }) => (images ? image : { question, top, mode, where: conditions(where) }),
  library: ({ question, image, top, mode }, { images }) =>
    images
      ? `print(model.search_image(open(${python(image.name)}, "rb").read(), top=${top}))`
      : `print(model.search(${python(question)}, ${named({ top, mode })}))`,
  show: showFound,
};

export const search = {
  id: "search",
  title: "tab.search",
  lead: "search.lead",
  how: "search.how",
  guide: "search",
  task: true,
  tools: [go, topics, duplicates],
  below: (model) => [!model.abilities.includes("group") && make("p", { class: "note", say: "topics.noVectors" })],
  suits: ({ abilities }) => abilities.includes("search"),
};
