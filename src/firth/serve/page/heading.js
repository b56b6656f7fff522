/** What stands at the top of a tab: its name and a sentence. */

import { make } from "./dom.js";

export const heading = (title, lead) =>
  make("div", {}, make("h1", { say: title }), make("p", { class: "lead", say: lead }));
