/** The inputs of a question. Fields are described as data:
 *  { name, kind: text | area | number | choice | check | file, label, value or example, more, when(model), ... }
 *  `example` names an entry of examples.js, `more` puts a field among the folded settings. */

import { freshId, make } from "./dom.js";
import { example, exampleFile } from "./examples.js";
import { say } from "./i18n.js";

export class Form {
  constructor(fields, button, model, { onsubmit, onedit }) {
    this.onedit = onedit;
    this.fields = fields.map((field) => this.#build(field));
    this.model = model;
    this.button = make("button", { type: "submit", class: "main", say: button });
    const [first, more] = [false, true].map((wanted) =>
      this.fields.filter((field) => Boolean(field.more) === wanted).map((field) => field.box),
    );
    this.element = make(
      "form",
      { class: "question", novalidate: true },
      first.length > 0 && make("div", { class: "fields" }, first),
      more.length > 0 && folded(more),
      make("div", { class: "go" }, this.button),
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      onsubmit();
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
    this.setModel(model);
    document.addEventListener("firth-language", () => this.#refreshExamples() && onedit());
  }

  #build(field) {
    const id = freshId(field.name);
    const input = INPUTS[field.kind](field, id);
    const label = make("label", { for: id, say: field.label });
    const built = { ...field, input, touched: false };
    const shown = field.kind === "file" ? fileBox(input) : input;
    built.box = make("div", { class: `field ${field.kind}` }, field.kind === "check" ? [input, label] : [label, shown]);
    input.addEventListener("input", () => {
      built.touched = true;
      this.onedit();
    });
    return built;
  }

  /** Fields that this model has no use for go away; examples are written with its own mask. */
  setModel(model) {
    this.model = model;
    for (const field of this.fields) field.box.hidden = field.when !== undefined && !field.when(model);
    this.#refreshExamples();
  }

  /** An example that nobody has changed is given in the language that the model reads; whether one is another now. */
  #refreshExamples() {
    let changed = false;
    for (const field of this.fields) {
      if (!field.example || field.touched) continue;
      if (field.kind === "file") {
        field.given = exampleFile(field.example, this.model);
        continue;
      }
      const text = example(field.example, this.model);
      changed ||= text !== field.input.value;
      field.input.value = text;
    }
    return changed;
  }

  field(name) {
    return this.fields.find((field) => field.name === name);
  }

  input(name) {
    return this.field(name).input;
  }

  /** What is asked, by name; fields that are hidden have no value. */
  values() {
    const shown = this.fields.filter((field) => !field.box.hidden);
    return Object.fromEntries(shown.map((field) => [field.name, valueOf(field)]));
  }

  /** A file in place of the one that is asked; one that is chosen takes its place again. */
  give(name, file) {
    const field = this.field(name);
    field.input.value = "";
    field.given = file;
    field.touched = true;
    say(field.box.querySelector(".file-name"), "form.file", { name: file.name });
  }

  /** Puts values in as if typed; names that the form does not have are passed over. */
  set(values) {
    for (const field of this.fields) {
      if (values[field.name] === undefined || field.kind === "file") continue;
      field.touched = true;
      if (field.kind === "check") field.input.checked = [true, "true"].includes(values[field.name]);
      else field.input.value = values[field.name];
      field.input.dispatchEvent(new Event("input"));
    }
  }
}

/** A file input in the page's own words: browsers write theirs in their own language. */
export function fileBox(input) {
  const name = make("span", { class: "file-name", say: "form.none" });
  input.addEventListener("change", () => {
    const file = input.files[0];
    if (file) say(name, "form.file", { name: file.name });
    else say(name, "form.none");
  });
  return make("div", { class: "file-box" }, input, make("span", { class: "file-button", "aria-hidden": "true", say: "form.choose" }), name);
}

const folded = (boxes) =>
  make(
    "details",
    { class: "more" },
    make("summary", { say: "form.more" }),
    make("div", { class: "fields small" }, boxes),
  );

function valueOf({ kind, input, value, given }) {
  if (kind === "check") return input.checked;
  if (kind === "file") return input.files[0] ?? given ?? null;
  if (kind !== "number") return input.value;
  return input.value.trim() === "" ? value : Number(input.value);
}

const INPUTS = {
  text: (field, id) =>
    make("input", { id, type: "text", value: field.value ?? "", spellcheck: "false", autocomplete: "off" }),
  area: (field, id) => make("textarea", { id, rows: field.rows ?? 3, value: field.value ?? "", spellcheck: "false" }),
  number: (field, id) =>
    make("input", { id, type: "number", value: field.value, min: field.min, max: field.max, step: field.step ?? 1 }),
  file: (field, id) => make("input", { id, type: "file", accept: field.accept }),
  check: (field, id) => make("input", { id, type: "checkbox", checked: Boolean(field.value) }),
  choice: (field, id) =>
    make(
      "select",
      { id },
      field.choices.map(([value, label]) => make("option", { value, say: label, selected: value === field.value })),
    ),
};
