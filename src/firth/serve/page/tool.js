/** A question and its answer: a form, a button, and the place where the result or the server's sentence appears.
 *
 *  A tool is described as data:
 *  { id, ability, route, title, lead, button, hint, fields, slow,
 *    body(values, model), library(values, model), ready(values, model), show(answer, values, tool), setup(tool) }
 *  `route` may be a function of the model and the values; `body` may give a file, which is sent as it is, or null where one is missing.
 *  `show` fills tool.output; what it returns stands below, for a further answer. Answers follow what is typed, except where
 *  a tool is `slow`. Nothing is asked before `ready` (by default: no text is empty). */

import { ask, askInParts } from "./api.js";
import { make } from "./dom.js";
import { Form } from "./form.js";
import { inLanguage } from "./words/server.js";
import { copyBar } from "./snippets.js";

const QUIET_MS = 300; // without a key before what is typed is asked

/** The place of a further answer -> what stops its question. */
const following = new WeakMap();

export class Tool {
  constructor(spec, model, onanswer) {
    this.spec = spec;
    this.model = model;
    this.onanswer = onanswer;
    this.begun = false;
    this.form = new Form(spec.fields, spec.button, model, { onsubmit: () => this.run(), onedit: () => this.#edited() });
    this.output = make("div", { class: "answer", "aria-live": "polite" });
    this.element = make(
      "section",
      { class: "tool", id: `tool-${spec.id}` },
      make(
        "div",
        { class: "ask" },
        make("h2", { class: spec.title ? undefined : "unseen", say: spec.title ?? spec.button }),
        spec.lead && make("p", { class: "lead", say: spec.lead }),
        this.form.element,
      ),
      this.output,
    );
    this.#showHint();
    spec.setup?.(this);
  }

  #showHint() {
    const said = typeof this.spec.hint === "function" ? this.spec.hint(this.model) : this.spec.hint;
    this.output.replaceChildren(make("p", { class: "hint", say: said }));
  }

  /** The example is asked as soon as the tool is seen. */
  begin() {
    if (this.begun || !this.can(this.model)) return;
    this.begun = true;
    if (this.#ready()) this.run({ quiet: true, example: true });
    else this.#showHint();
  }

  /** Another model: the question is asked again, so that models can be compared. */
  setModel(model) {
    this.model = model;
    this.form.setModel(model);
    this.element.hidden = !this.can(model);
    this.spec.modelChanged?.(this);
    if (!this.begun || !this.can(model)) return;
    if (this.#ready()) this.run({ quiet: true });
    else this.#showHint();
  }

  #ready() {
    const values = this.form.values();
    if (this.spec.ready) return this.spec.ready(values, this.model);
    const needed = this.form.fields.filter((field) => field.example && !field.box.hidden);
    return needed.every(({ name }) => values[name] !== null && String(values[name]).trim() !== "") && this.spec.body(values, this.model) !== null;
  }

  #edited() {
    clearTimeout(this.timer);
    if (this.spec.slow || !this.begun) return;
    this.timer = setTimeout(() => {
      if (this.#ready()) this.run({ quiet: true });
    }, QUIET_MS);
  }

  can(model) {
    return model.abilities.includes(this.spec.ability);
  }

  /** `quiet`: nobody pressed the button, so the page stays where it is; `example`: the address stays, too. */
  async run({ quiet = false, example = false } = {}) {
    clearTimeout(this.timer);
    this.begun = true;
    this.asked?.abort(); // only the last question counts
    const asked = (this.asked = new AbortController());
    const values = this.form.values();
    const given = this.spec.body(values, this.model);
    if (given === null) {
      this.output.replaceChildren(make("p", { class: "error", role: "alert", say: "form.noFile" }));
      return;
    }
    const wanted = this.spec.route;
    const [route, body] = this.#addressed(typeof wanted === "function" ? wanted(this.model, values) : wanted, given);
    this.#setBusy(true);
    if (!example) this.onanswer(this.spec.id, given instanceof Blob ? {} : values);
    try {
      const answer = await this.#answer(route, body, values, asked.signal);
      const warning = answer.warning && make("p", { class: "note warning" }, inLanguage(answer.warning));
      this.output.replaceChildren(...(warning ? [warning] : []));
      const part = this.spec.show(answer, values, this);
      // An example is no file that a copied command could read.
      if (!body.isExample) this.output.append(copyBar(route, body, this.spec.library?.(values, this.model)));
      if (part) this.output.append(part);
      if (!quiet) this.#bringIntoView();
    } catch (error) {
      if (asked.signal.aborted) return;
      this.output.replaceChildren(errorNote(error));
      if (!quiet) this.#bringIntoView();
    } finally {
      if (this.asked === asked) this.#setBusy(false);
    }
  }

  /** The whole answer; a tool with `partly(part, values, tool)` hears of what is there already. */
  #answer(route, body, values, signal) {
    if (!this.spec.partly) return ask(route, body, signal);
    return askInParts(route, body, signal, (part) => this.spec.partly(part, values, this));
  }

  /** A further question that belongs to the answer; its place on the page is `into`. Stops with the answer.
   *  `library` null: nothing to copy. */
  async follow(route, body, into, show, library) {
    following.get(into)?.abort(); // of several such questions the last counts
    const asked = new AbortController();
    following.set(into, asked);
    const signal = AbortSignal.any([asked.signal, this.asked.signal]);
    const [address, whole] = this.#addressed(route, body);
    into.replaceChildren(make("p", { class: "note waiting", say: "page.waiting" }));
    try {
      const answer = await ask(address, whole, signal);
      into.replaceChildren();
      show(answer);
      if (library !== null) into.append(copyBar(address, whole, library));
    } catch (error) {
      if (!signal.aborted) into.replaceChildren(errorNote(error));
    }
  }

  /** The plain answer to a further question; stops with the answer it belongs to. */
  async further(route, body) {
    const [address, whole] = this.#addressed(route, body);
    return ask(address, whole, this.asked.signal);
  }

  /** Which model is asked stands in the body, or beside a file in the address. */
  #addressed(route, body) {
    if (!(body instanceof Blob)) return [route, { ...body, model: this.model.name }];
    return [`${route}${route.includes("?") ? "&" : "?"}model=${encodeURIComponent(this.model.name)}`, body];
  }

  /** On a small screen the answer may appear below what is seen. */
  #bringIntoView() {
    if (this.output.getBoundingClientRect().top > innerHeight * 0.75) this.output.scrollIntoView({ block: "start" });
  }

  #setBusy(busy) {
    this.output.setAttribute("aria-busy", String(busy));
    this.element.classList.toggle("busy", busy);
  }
}

/** The server's sentence, where the answer would be. A mistake of the page's own is also told to the console. */
export function errorNote(error) {
  if (error.status === undefined) console.error(error);
  return make("p", { class: "error", role: "alert" }, inLanguage(error.message));
}
