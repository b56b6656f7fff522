/** The page's two languages. Elements remember what they say, so that a switch relabels all of them in place. */

import { en } from "./words/en.js";
import { zh } from "./words/zh.js";
import { keep, recall } from "./storage.js";

const WORDS = { en, zh };
const KEY = "firth-language";
/** element -> { attribute or "text": [key, values] } */
const said = new WeakMap();

const firstLanguage = () => ((navigator.language ?? "").toLowerCase().startsWith("zh") ? "zh" : "en");
let current = recall(KEY) in WORDS ? recall(KEY) : firstLanguage();

export const language = () => current;

/** A sentence in the page's language; {name} is replaced by values.name, "@key" by another sentence. */
export function t(key, values = {}) {
  const sentence = WORDS[current][key];
  if (sentence === undefined) throw new Error(`no words for '${key}' in '${current}'`);
  return sentence.replace(/\{(\w+)\}/g, (_, name) => {
    const given = values[name];
    const value = String(typeof given === "function" ? given() : given); // numbers are written anew in another language
    return value.startsWith("@") && knows(value.slice(1)) ? t(value.slice(1)) : value;
  });
}

export const knows = (key) => key in WORDS[current];

function remember(element, place, entry) {
  said.set(element, { ...said.get(element), [place]: entry });
  element.setAttribute("data-said", "");
}

export function say(element, key, values) {
  remember(element, "text", [key, values]);
  element.textContent = t(key, values);
}

export function sayAttribute(element, attribute, key, values) {
  remember(element, attribute, [key, values]);
  element.setAttribute(attribute, t(key, values));
}

function relabel() {
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-said]")) {
    for (const [place, [key, values]] of Object.entries(said.get(element) ?? {})) {
      if (place === "text") element.textContent = t(key, values);
      else element.setAttribute(place, t(key, values));
    }
  }
}

export function setLanguage(name) {
  current = name;
  keep(KEY, name);
  relabel();
  document.dispatchEvent(new CustomEvent("firth-language"));
}

document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
