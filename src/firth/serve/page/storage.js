/** What the browser keeps for us. Storage may be forbidden or full: then nothing is kept and nothing breaks. */

export function recall(name, store = "localStorage") {
  try {
    return window[store].getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, value, store = "localStorage") {
  try {
    if (value === null) window[store].removeItem(name);
    else window[store].setItem(name, value);
  } catch {
    // see above
  }
}
