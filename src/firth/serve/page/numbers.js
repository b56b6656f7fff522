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

/** 1234567 bytes as 1.2 MB. */
export function bytes(number) {
  for (const [size, unit] of [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ]) {
    if (number >= size) return `${+(number / size).toPrecision(number / size < 10 ? 2 : 3)} ${unit}`;
  }
  return `${number} B`;
}

/** Seconds as people write them: 42 s, 3 min 5 s, 2 h 10 min. */
export function duration(seconds) {
  if (seconds < 10) return `${+seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const [minutes, rest] = [Math.floor(whole / 60), whole % 60];
  if (minutes < 60) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
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
