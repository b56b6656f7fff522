// Light or dark, before anything is drawn: a module would run too late and the page would flash.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("firth-theme");
  } catch {
    // Storage may be forbidden; then the system's choice holds.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
