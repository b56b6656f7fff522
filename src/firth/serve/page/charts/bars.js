/** Horizontal bars: a name, a bar, a number. */

import { make } from "../dom.js";

/** `rows`: { label, say or pickSay, value, shown, title }; the longest bar is `most`. With `onpick` the names are buttons
 *  (in words of the page by `pickSay`); `even` does not single out the first. */
export function bars(rows, { most = 1, onpick, label, even } = {}) {
  const nameOf = (row, place) => {
    if (row.say) return make("span", { say: row.say });
    if (!onpick) return make("span", { title: row.title }, row.label);
    const onclick = () => onpick(row, place);
    return make("button", { type: "button", class: "pick", title: row.title, say: row.pickSay, onclick }, row.label);
  };
  const barOf = ({ value }) => {
    const share = Math.min(Math.max(value / (most || 1), 0), 1);
    const bar = make("span", { class: "bar", variables: { "--share": share } });
    return make("span", { class: "bar-track", "aria-hidden": "true" }, bar);
  };
  const line = (row, place) =>
    make(
      "li",
      {},
      make("span", { class: "bar-name" }, nameOf(row, place)),
      barOf(row),
      make("span", { class: "bar-value" }, row.shown),
    );
  return make("ol", { class: even ? "bars even" : "bars", sayLabel: label }, rows.map(line));
}
