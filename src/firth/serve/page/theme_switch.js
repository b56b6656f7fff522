/** The button for light and dark. Charts on canvas hear of a change by the event "firth-theme". */

import { say } from "./i18n.js";
import { keep } from "./storage.js";

const system = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

export function buildThemeSwitch(button) {
  const tell = () => {
    say(button, isDark() ? "page.light" : "page.dark");
    document.dispatchEvent(new CustomEvent("firth-theme"));
  };
  button.addEventListener("click", () => {
    const chosen = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    // What the system wants anyway need not be kept: so the page goes on following it.
    keep("firth-theme", (chosen === "dark") === system.matches ? null : chosen);
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}
