/** Elements in one call. What is given as text becomes a text node, never markup. */

import { say, sayAttribute } from "./i18n.js";

const SVG = "http://www.w3.org/2000/svg";
// These are set as properties: as attributes they would only be the first value.
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected"]);

function dress(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "say") say(element, ...[value].flat());
    else if (name === "sayLabel") sayAttribute(element, "aria-label", ...[value].flat());
    else if (name === "variables") setVariables(element, value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** CSS variables; unlike a style attribute they are allowed under a strict content policy. */
function setVariables(element, variables) {
  for (const [name, value] of Object.entries(variables)) element.style.setProperty(name, value);
}

export const make = (tag, properties, ...children) => dress(document.createElement(tag), properties, children);

export const draw = (tag, properties, ...children) =>
  dress(document.createElementNS(SVG, tag), properties, children);

let numMade = 0;
/** An id that no other element has. */
export const freshId = (name) => `${name}-${(numMade += 1)}`;
