/** What is looked at, in the address's hash: tab, model, question and inputs. A copied address shows the same view. */

/** { tab, model, tool, inputs: {name: text} } */
export function readView() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const { tab, model, tool, ...inputs } = Object.fromEntries(parameters);
  return { tab, model, tool, inputs };
}

function hashOf({ tab, model, tool, inputs }) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries({ tab, model, tool, ...inputs })) {
    if (value !== undefined && value !== null) parameters.set(name, value);
  }
  return `#${parameters}`;
}

/** A new step in the browser's history where the tab changes, otherwise the same step. */
export function writeView(view) {
  const hash = hashOf(view);
  if (hash === location.hash) return;
  const same = readView().tab === undefined || readView().tab === view.tab;
  history[same ? "replaceState" : "pushState"](null, "", hash);
}
