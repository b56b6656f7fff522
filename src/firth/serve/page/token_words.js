/** Pieces back to words, where tokenizers mark how words begin: BPE on bytes ("Ġ") and SentencePiece ("▁"). */

const BEGINS = /^[Ġ▁]/u;

/** The characters that stand for bytes in byte-level BPE (Radford et al. 2019): printable ones for themselves, the
 *  others, in order, from 256 on. */
function byteTable() {
  const table = new Map();
  const printable = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  for (let byte = 0; byte < 256; byte += 1) table.set(String.fromCodePoint(printable(byte) ? byte : next++), byte);
  return table;
}

const BYTES = byteTable();
const END = /^(<\|endoftext\|>|<\/s>|<eos>)$/u;

/** What byte-level pieces say; as they are if they are not such pieces. */
function spell(pieces) {
  const text = pieces.join("");
  if (END.test(text)) return "∎";
  if (text.includes("▁")) return text.replaceAll("▁", " ").trim();
  const bytes = Array.from(text, (character) => BYTES.get(character));
  if (bytes.includes(undefined)) return text;
  return new TextDecoder().decode(new Uint8Array(bytes)).trim();
}

/** [[places of the pieces of a word]]; every piece for itself where nothing is marked. Special tokens and
 *  punctuation stand alone. */
function groups(tokens) {
  const marked = tokens.some((token) => BEGINS.test(token));
  const found = [];
  tokens.forEach((token, place) => {
    const apart = !marked || BEGINS.test(token) || !/[\p{L}\p{N}\u0080-\u0143]/u.test(token) || isSpecial(token);
    if (apart || found.length === 0 || isSpecial(tokens[place - 1])) found.push([place]);
    else found.at(-1).push(place);
  });
  return found;
}

const isSpecial = (token) => /^(<.+>|\[.+\])$/u.test(token);

/** Weights from target pieces (rows) to source pieces (columns) as weights between words: a word's pieces look as
 *  their mean, and are looked at as their sum, so that rows still sum to one. */
export function joinWords({ source, target, weights }) {
  const [columns, rows] = [groups(source), groups(target)];
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  return {
    source: columns.map((places) => spell(places.map((place) => source[place]))),
    target: rows.map((places) => spell(places.map((place) => target[place]))),
    weights: rows.map((down) =>
      columns.map((across) => sum(down.map((row) => sum(across.map((column) => weights[row][column])))) / down.length),
    ),
  };
}
