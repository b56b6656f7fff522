// What a screen reader, a keyboard and weak eyes need; gives a list of sentences about what is amiss on the visible page.
(() => {
  const problems = [];
  const visible = (element) => element.checkVisibility({ checkOpacity: false, checkVisibilityCSS: true }) && element.getClientRects().length > 0;
  const where = (element) => {
    const text = (element.textContent ?? "").trim().slice(0, 30);
    return `<${element.localName}${element.id ? ` #${element.id}` : ""} .${element.getAttribute("class") ?? ""}> ${text}`;
  };
  const tell = (what, element) => problems.push(`${what}: ${where(element)}`);
  const all = (selector) => [...document.querySelectorAll(selector)].filter(visible);

  // names
  const name = (element) =>
    (element.getAttribute("aria-label") ?? "").trim() ||
    (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim() ||
    [...(element.labels ?? [])].map((label) => label.textContent).join(" ").trim() ||
    (element.matches("input, select, textarea") ? "" : element.textContent.trim());
  for (const element of all("button, a[href], input, select, textarea, progress, [role=button], [role=tab], [role=img], summary, output[for] ~ input")) {
    if (name(element) === "") tell("no name", element);
  }
  for (const element of all("svg:not([aria-hidden]), canvas:not([aria-hidden]), img")) {
    const named = name(element) || element.closest("[role=img], [aria-hidden=true]") || element.getAttribute("alt") !== null;
    if (!named || (element.localName === "svg" && !element.getAttribute("role"))) tell("a picture without a name", element);
  }

  // structure
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((one, place) => ids.indexOf(one) !== place))) problems.push(`an id twice: ${id}`);
  for (const attribute of ["aria-controls", "aria-labelledby", "for"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) tell(`${attribute} leads nowhere (${id})`, element);
    }
  }
  if (!document.documentElement.lang) problems.push("the page says no language");
  if (document.title.trim() === "") problems.push("the page has no title");
  let before = 0;
  for (const element of all("h1, h2, h3, h4")) {
    const level = Number(element.localName[1]);
    if (level > before + 1) tell(`a heading of level ${level} after one of level ${before}`, element);
    before = level;
  }
  if (all("h1").length !== 1) problems.push(`${all("h1").length} headings of the first level`);
  for (const element of all("table")) if (element.querySelectorAll("th").length === 0) tell("a table without heads", element);
  for (const element of document.querySelectorAll("ol > :not(li), ul > :not(li)")) tell("a list with something else", element);

  // keyboard
  for (const element of document.querySelectorAll("[tabindex]")) if (Number(element.getAttribute("tabindex")) > 0) tell("a place in the order of focus of its own", element);
  for (const element of all(".scrolls, pre")) {
    const focus = element.tabIndex >= 0 || element.querySelector("button, a, input, [tabindex]");
    if (element.scrollWidth > element.clientWidth + 1 && !focus) tell("scrolls, but not by keys", element);
  }
  for (const element of all("button, select, input:not([type=checkbox]):not([type=range]), [role=tab]")) {
    const box = element.getBoundingClientRect();
    const inText = element.matches(".word, .pick, .sorts");
    if (!inText && (box.height < 24 || box.width < 24)) tell(`a target of ${Math.round(box.width)} x ${Math.round(box.height)} pixels`, element);
  }

  // contrast
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = ([r, g, b, a], ground) => [r, g, b].map((part, place) => part * a + ground[place] * (1 - a));
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((found, layer) => over(layer, found), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() === "" || seen.has(element) || !visible(element) || element.closest(":disabled, option, .unseen, .skip, title")) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    if (element.closest(".crowded, .cell-number")) continue; // shown on demand; on a painted ground
    const inside = element.closest("svg") !== null;
    const back = ground(inside ? element.closest("svg").parentElement : element);
    if (inside && element.closest(".tree, .link-word")) continue; // on shapes of their own
    const front = over(colour(inside ? style.fill : style.color), back);
    const [one, other] = [light(front), light(back)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) tell(`contrast ${ratio.toFixed(2)}`, element);
  }
  return problems;
})()
