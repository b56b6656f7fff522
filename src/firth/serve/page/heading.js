/** What stands at the top of a tab: its name, a sentence, and folded how to read it. */

import { make } from "./dom.js";
import { language } from "./i18n.js";

/** A page of the manual in the page's language; where the package came without it, its file in the source is named. */
function manualLink(path, label) {
  if (document.documentElement.dataset.manual === undefined) {
    return make("p", {}, make("span", { say: label }), " (", make("span", { say: "page.noManual" }), ") ", make("code", {}, `docs/${path}.md`));
  }
  const address = () => `manual/${path}${language() === "zh" ? ".zh" : ""}`;
  const link = make("a", { href: address(), target: "_blank", rel: "noopener", say: label });
  document.addEventListener("firth-language", () => link.setAttribute("href", address()));
  return make("p", {}, link);
}

/** `tab`: { title, lead, how, story, guide }; `story` and `guide` name pages of the manual. */
export const heading = ({ title, lead, how, story, guide }) =>
  make(
    "div",
    {},
    make("h1", { say: title }),
    make("p", { class: "lead", say: lead }),
    how &&
      make(
        "details",
        { class: "how" },
        make("summary", { say: "page.how" }),
        make("p", { say: how }),
        story && manualLink(`story/${story}`, "page.story"),
        guide && manualLink(guide, "page.guide"),
      ),
  );
