/** Horizontal bars: a name, a bar, a number. */

import { make } from "../dom.js";

/** `rows`: { label, value, shown, title }; the longest bar is `most`. With `onpick` the names are buttons;
 *  `even` does not single out the first. */
export function bars(rows, { most = 1, onpick, label, even } = {}) {
  const line = (row, place) => {
    const share = Math.min(Math.max(row.value / (most || 1), 0), 1);
    const name = onpick
      ? make("button", { type: "button", class: "pick", title: row.title, onclick: () => onpick(row, place) }, row.label)
      : make("span", { title: row.title }, row.label);
    return make(
      "li",
      {},
      make("span", { class: "bar-name" }, name),
      make("span", { class: "bar-track", "aria-hidden": "true" }, make("span", { class: "bar", variables: { "--share": share } })),
      make("span", { class: "bar-value" }, row.shown),
    );
  };
  return make("ol", { class: even ? "bars even" : "bars", sayLabel: label }, rows.map(line));
}
