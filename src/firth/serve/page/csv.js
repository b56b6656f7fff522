/** Tables as text: commas, tabs or semicolons between cells, quotes as in RFC 4180; with tabs a quote is a character like any other,
 *  as in every command of Firth. */

const SEPARATORS = [",", "\t", ";"];

/** Cells of all rows, and what separated them. */
export function parseTable(text) {
  const clean = text.replace(/^\uFEFF/u, "");
  const separator = findSeparator(clean);
  const rows = [[""]];
  let quoted = false;
  for (let at = 0; at < clean.length; at += 1) {
    const [letter, row] = [clean[at], rows.at(-1)];
    if (quoted) {
      if (letter === '"' && clean[at + 1] === '"') row[row.length - 1] += clean[(at += 1)];
      else if (letter === '"') quoted = false;
      else row[row.length - 1] += letter;
    } else if (letter === '"' && row.at(-1) === "" && separator !== "\t") quoted = true;
    else if (letter === separator) row.push("");
    else if (letter === "\n") rows.push([""]);
    else if (letter !== "\r") row[row.length - 1] += letter;
  }
  return { rows: rows.filter((row) => row.length > 1 || row[0] !== ""), separator };
}

/** The one that cuts the first line into most cells. */
function findSeparator(text) {
  const first = text.split("\n", 1)[0].replace(/"[^"]*"/gu, "");
  const counts = SEPARATORS.map((one) => first.split(one).length);
  return SEPARATORS[counts.indexOf(Math.max(...counts))];
}

const quote = (cell, separator) =>
  separator === "\t"
    ? cell.replace(/[\t\r\n]+/gu, " ")
    : cell.includes(separator) || /["\n\r]/u.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;

export const writeTable = (rows, separator) =>
  `${rows.map((row) => row.map((cell) => quote(String(cell), separator)).join(separator)).join("\n")}\n`;

const NAMED = /^(text|texts|sentence|review|content|body|message|title|文本|内容|评论|句子|正文)$/iu;

/** { header, rows, column }: whether the first row names columns, and which one has the texts: by its name, else the longest. */
export function findTexts(rows) {
  const named = rows[0].findIndex((cell) => NAMED.test(cell.trim()));
  const short = rows[0].every((cell) => cell.length <= 40) && rows.length > 1;
  const header = named >= 0 || (rows[0].length > 1 && short) ? rows[0] : null;
  const body = header === null ? rows : rows.slice(1);
  const lengths = rows[0].map((_, place) => body.reduce((sum, row) => sum + (row[place] ?? "").length, 0));
  return { header, rows: body, column: named >= 0 ? named : lengths.indexOf(Math.max(...lengths)) };
}

/** Gives a text to the reader as a file. */
export function saveText(text, name, type = "text/csv") {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
