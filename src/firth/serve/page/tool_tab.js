/** A tab that asks models: a heading, the choice of a model, and one or more tools. */

import { freshId, make } from "./dom.js";
import { heading } from "./heading.js";
import { language } from "./i18n.js";
import { kindName } from "./names.js";
import { count } from "./numbers.js";
import { Tool } from "./tool.js";

/** `tab`: { id, title, lead, how, story, tools, suits(model), rank(model), below(model, tools) }; `remember(model, tool, inputs)` writes the address. */
export function buildToolTab(tab, panel, models, remember) {
  // What a tab is made for comes first, then what reads the page's language; a task is met at its own tab.
  const suit = tab.rank ?? ((model) => (!tab.task && (model.task || model.languages?.length) ? 1 : 0));
  const reads = (model) => model.languages?.[0] ?? model.reads;
  const foreign = (model) => (reads(model) === language() ? 0 : reads(model) ? 2 : 1);
  const rank = (model) => 3 * suit(model) + foreign(model);
  // Of equals the one with the better score comes first.
  const order = (one, other) => rank(one) - rank(other) || (other.score ?? 0) - (one.score ?? 0);
  const suited = models.filter(tab.suits).sort(order);
  let model = suited[0];
  const tools = tab.tools.map((spec) => new Tool(spec, model, (id, values) => remember(model.name, id, values)));
  const facts = make("p", { class: "facts" });
  const below = make("div", {});

  function setModel(chosen) {
    model = chosen;
    facts.replaceChildren(...factsOf(model));
    choice.value = model.name;
    for (const tool of tools) tool.setModel(model);
    below.replaceChildren(...(tab.below?.(model, tools) ?? []).filter(Boolean));
  }

  const { box, choice } = modelChoice(suited, (name) => {
    setModel(suited.find((one) => one.name === name));
    remember(model.name, undefined, {});
  });
  panel.replaceChildren(
    make(
      "header",
      { class: "head" },
      heading(tab),
      make("div", { class: "chosen" }, box, facts),
    ),
    ...tools.map((tool) => tool.element),
    below,
  );
  setModel(model);

  /** The view that an address describes; inputs are asked at once. */
  return function open(view) {
    const wanted = suited.find((one) => one.name === view.model);
    if (wanted !== undefined && wanted !== model) setModel(wanted);
    const tool = tools.find((one) => one.spec.id === view.tool && !one.element.hidden);
    if (tool !== undefined && Object.keys(view.inputs).length > 0) {
      tool.form.set(view.inputs);
      tool.run();
    }
    for (const one of tools) one.begin();
  };
}

function modelChoice(models, onchange) {
  const id = freshId("model");
  const choice = make(
    "select",
    { id, onchange: (event) => onchange(event.target.value) },
    models.map(({ name }) => make("option", { value: name }, name)),
  );
  const box = make("div", { class: "field choice" }, make("label", { for: id, say: "model.choose" }), choice);
  return { box, choice };
}

/** What a model is, in a line. */
function factsOf(model) {
  const known = [
    model.recipe && !model.task && make("span", {}, model.recipe),
    make("span", { say: kindName(model.kind) }),
    model.languages?.length === 2 && make("span", {}, model.languages.join(" → ")),
    model.documents && make("span", { say: ["model.documents", { count: () => count(model.documents) }] }),
    model.dim && make("span", { say: ["model.dim", { dim: model.dim }] }),
    model.parameters && make("span", { say: ["model.parameters", { count: () => count(model.parameters) }] }),
  ];
  return known.filter(Boolean);
}
