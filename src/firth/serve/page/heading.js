/** What stands at the top of a tab: its name, a sentence, and folded how to read it. */

import { make } from "./dom.js";

/** `tab`: { title, lead, how, story }; `story` names a page of the documentation. */
export const heading = ({ title, lead, how, story }) =>
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
        story && make("p", {}, make("span", { say: "page.story" }), " ", make("code", {}, `docs/story/${story}.md`)),
      ),
  );
