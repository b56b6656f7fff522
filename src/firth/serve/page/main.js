/** The page begins: which runs are there, which tabs they fill, which view the address asks for. */

import { ask, onTokenWanted } from "./api.js";
import { make } from "./dom.js";
import { language, say, sayAttribute, setLanguage } from "./i18n.js";
import { buildTabs } from "./tablist.js";
import { TABS } from "./tabs/all.js";
import { buildThemeSwitch } from "./theme_switch.js";
import { askForToken } from "./token_form.js";
import { errorNote } from "./tool.js";
import { buildToolTab } from "./tool_tab.js";
import { readView, writeView } from "./view_state.js";

const at = (id) => document.getElementById(id);

function buildHeader() {
  say(at("skip"), "page.skip");
  say(at("motto"), "page.motto");
  sayAttribute(at("rail"), "aria-label", "page.tabs");
  // A link to "#main" would put it in the address, where the view is kept.
  at("skip").addEventListener("click", (event) => {
    event.preventDefault();
    at("main").focus();
  });
  say(at("language"), "page.otherLanguage");
  at("language").addEventListener("click", () => setLanguage(language() === "zh" ? "en" : "zh"));
  buildThemeSwitch(at("theme"));
}

/** Builds a tab when it is looked at for the first time; gives the function that opens a view in it. */
function tabOpener(models) {
  const openers = new Map();
  return (tab) => {
    if (!openers.has(tab.id)) {
      const panel = at(`panel-${tab.id}`);
      const remember = (model, tool, inputs) => writeView({ tab: tab.id, model, tool, inputs });
      const build = tab.build ?? ((place, all) => buildToolTab(tab, place, all, remember));
      openers.set(tab.id, build(panel, models, remember));
    }
    return openers.get(tab.id);
  };
}

function buildPage(models) {
  const tabs = TABS.filter((tab) => tab.always || models.some(tab.suits));
  const opener = tabOpener(models);
  // A run that was made for a task is met at that task.
  const home = tabs.find((tab) => tab.task && models.slice(0, 1).some(tab.suits)) ?? tabs[0];
  const find = (id) => tabs.find((tab) => tab.id === id) ?? home;
  const select = buildTabs(at("tabs"), at("panels"), tabs, (id) => {
    writeView({ tab: id, inputs: {} });
    opener(find(id))?.({ inputs: {} });
  });
  const show = () => {
    const view = readView();
    const tab = find(view.tab);
    select(tab.id);
    opener(tab)?.(view);
  };
  at("rail").hidden = false;
  // A wide screen has the tabs below one another.
  const wide = matchMedia("(min-width: 60rem)");
  const turn = () => at("tabs").setAttribute("aria-orientation", wide.matches ? "vertical" : "horizontal");
  wide.addEventListener("change", turn);
  turn();
  window.addEventListener("popstate", show);
  show();
}

async function start() {
  at("notices").replaceChildren();
  try {
    const { models } = await ask("/models");
    buildPage(models);
  } catch (error) {
    const again = make("button", { type: "button", class: "main", say: "page.again", onclick: start });
    at("notices").replaceChildren(make("div", { class: "notice" }, errorNote(error), again));
  }
}

buildHeader();
onTokenWanted(askForToken);
start();
