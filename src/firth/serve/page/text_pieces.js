/** Cutting texts. The server counts characters as Python does (code points), JavaScript counts UTF-16 units. */

const HAN = /\p{Script=Han}/u;

/** The characters from `start` to `end`, in the server's count. */
export const slice = (text, start, end) => Array.from(text).slice(start, end).join("");

/** `text` around a stretch: [before, inside, after]. */
export function around(text, start, end) {
  const characters = Array.from(text);
  return [characters.slice(0, start), characters.slice(start, end), characters.slice(end)].map((part) => part.join(""));
}

/** Words, single Chinese characters, and what lies between: [{ text, word }], which joined give the text.
 *  `mask` stays whole. */
export function pieces(text, mask) {
  if (mask && text.includes(mask)) {
    return text
      .split(mask)
      .flatMap((part, place) => [...(place ? [{ text: mask, word: true, mask: true }] : []), ...pieces(part)]);
  }
  const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  return Array.from(segmenter.segment(text)).flatMap(({ segment, isWordLike }) =>
    HAN.test(segment)
      ? Array.from(segment, (character) => ({ text: character, word: isWordLike }))
      : [{ text: segment, word: isWordLike }],
  );
}

/** The lines that say something. */
export const lines = (text) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

/** Words with spaces, commas or new lines between them. */
export const wordList = (text) => [...new Set(text.split(/[\s,，、;；]+/u).filter(Boolean))];

/** A token as people read it: without the marks by which tokenizers say "a new word" or "goes on". */
export const bareToken = (token) => token.replace(/^(Ġ|▁|##)(?=.)/u, "").replace(/<\/w>$/u, "");
