/** How numbers are written. */

const SMALL = 0.0005;

/** A probability: 12.3 %. */
export const percent = (share) => (share > 0 && share < SMALL ? "<0.1 %" : `${(100 * share).toFixed(1)} %`);

/** A cosine or a log probability; a true minus sign. */
export const decimal = (value, digits = 3) => value.toFixed(digits).replace("-", "−");

/** 1234567 as 1.2M. */
export function count(number) {
  if (number < 1e4) return String(number);
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (number >= size) return `${+(number / size).toPrecision(3)}${unit}`;
  }
  return String(number);
}

/** Any measured number in few characters. */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  if (Number.isInteger(value)) return Math.abs(value) >= 1e5 ? count(value) : String(value).replace("-", "−");
  return String(+value.toPrecision(4)).replace("-", "−");
}

/** About `wanted` round numbers from low to high. */
export function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(wanted, 1) || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= raw * 0.999);
  const found = [];
  for (let number = Math.ceil(low / step); number * step <= high + step * 1e-9; number += 1) {
    found.push(+(number * step).toPrecision(12));
  }
  return found;
}
