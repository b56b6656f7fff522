/** A question and its answer: a form, a button, and the place where the result or the server's sentence appears.
 *
 *  A tool is described as data:
 *  { id, ability, route, title, lead, button, hint, fields,
 *    body(values, model), library(values, model), show(answer, values, tool), setup(tool) }
 *  `route` may be a function of the model; `body` may give a file, which is sent as it is, or null where one is missing.
 *  `show` fills tool.output; what it returns stands below, for a further answer. */

import { ask } from "./api.js";
import { make } from "./dom.js";
import { Form } from "./form.js";
import { copyBar } from "./snippets.js";

/** The place of a further answer -> what stops its question. */
const following = new WeakMap();

export class Tool {
  constructor(spec, model, onanswer) {
    this.spec = spec;
    this.model = model;
    this.onanswer = onanswer;
    this.answered = false;
    this.form = new Form(spec.fields, spec.button, model, () => this.run());
    this.output = make("div", { class: "answer", "aria-live": "polite" });
    this.element = make(
      "section",
      { class: "tool", id: `tool-${spec.id}` },
      make(
        "div",
        { class: "ask" },
        spec.title && make("h2", { say: spec.title }),
        spec.lead && make("p", { class: "lead", say: spec.lead }),
        this.form.element,
      ),
      this.output,
    );
    this.#showHint();
    spec.setup?.(this);
  }

  #showHint() {
    this.answered = false;
    this.output.replaceChildren(make("p", { class: "hint", say: this.spec.hint }));
  }

  /** Another model: what was answered is asked again, so that models can be compared. */
  setModel(model) {
    const again = this.answered && this.can(model);
    this.model = model;
    this.form.setModel(model);
    this.element.hidden = !this.can(model);
    this.spec.modelChanged?.(this);
    if (again) this.run();
    else this.#showHint();
  }

  can(model) {
    return model.abilities.includes(this.spec.ability);
  }

  async run() {
    this.asked?.abort(); // only the last question counts
    const asked = (this.asked = new AbortController());
    const values = this.form.values();
    const given = this.spec.body(values, this.model);
    if (given === null) {
      this.output.replaceChildren(make("p", { class: "error", role: "alert", say: "form.noFile" }));
      return;
    }
    const wanted = this.spec.route;
    const [route, body] = this.#addressed(typeof wanted === "function" ? wanted(this.model) : wanted, given);
    this.#setBusy(true);
    this.onanswer(this.spec.id, given instanceof Blob ? {} : values);
    try {
      const answer = await ask(route, body, asked.signal);
      this.answered = true;
      this.output.replaceChildren(...(answer.warning ? [make("p", { class: "note warning" }, answer.warning)] : []));
      const part = this.spec.show(answer, values, this);
      this.output.append(copyBar(route, body, this.spec.library?.(values, this.model)));
      if (part) this.output.append(part);
      this.#bringIntoView();
    } catch (error) {
      if (asked.signal.aborted) return;
      this.output.replaceChildren(errorNote(error));
      this.#bringIntoView();
    } finally {
      if (this.asked === asked) this.#setBusy(false);
    }
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

  /** Which model is asked stands in the body, or beside a file in the address. */
  #addressed(route, body) {
    if (!(body instanceof Blob)) return [route, { ...body, model: this.model.name }];
    return [`${route}?model=${encodeURIComponent(this.model.name)}`, body];
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
  return make("p", { class: "error", role: "alert" }, error.message);
}
