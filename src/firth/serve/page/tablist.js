/** Tabs as the ARIA practices describe them: arrow keys, Home and End move; one tab is in the order of focus. */

import { make } from "./dom.js";

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** `onselect(id)` is told of every change; returns a function that selects by id. */
export function buildTabs(list, panels, tabs, onselect) {
  const buttons = tabs.map(({ id, title }) =>
    make("button", {
      type: "button",
      role: "tab",
      id: `tab-${id}`,
      "aria-controls": `panel-${id}`,
      say: title,
      onclick: () => choose(id),
    }),
  );
  const shown = tabs.map(({ id }) =>
    make("section", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, hidden: true }),
  );

  function select(id) {
    tabs.forEach((tab, place) => {
      const chosen = tab.id === id;
      buttons[place].setAttribute("aria-selected", String(chosen));
      buttons[place].tabIndex = chosen ? 0 : -1;
      shown[place].hidden = !chosen;
    });
    bringIntoView(list, buttons[tabs.findIndex((tab) => tab.id === id)]);
  }

  function choose(id) {
    select(id);
    onselect(id);
  }

  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const ends = { Home: 0, End: buttons.length - 1 };
    const next = event.key in STEPS ? (at + STEPS[event.key] + buttons.length) % buttons.length : ends[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    buttons[next].focus();
    choose(tabs[next].id);
  });
  list.replaceChildren(...buttons);
  panels.replaceChildren(...shown);
  return select;
}

/** On a narrow screen the tabs are a strip that scrolls by itself; the page must not move. */
function bringIntoView(list, button) {
  const strip = list.parentElement;
  strip.scrollLeft = button.offsetLeft - (strip.clientWidth - button.offsetWidth) / 2;
}
