/** How numbers are written. */

import { language } from "./i18n.js";

const SMALL = 0.0005;

/** A probability: 12.3 %. */
export const percent = (share) => (share > 0 && share < SMALL ? "<0.1\u00a0%" : `${(100 * share).toFixed(1)}\u00a0%`);

/** A cosine or a log probability; a true minus sign. */
export const decimal = (value, digits = 3) => value.toFixed(digits).replace("-", "−");

const COUNTS = {
  en: [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ],
  zh: [
    [1e8, " 亿"],
    [1e4, " 万"],
  ],
};

/** 1920 as 1,920; 1234567 as 1.23M, in Chinese as 123 万. */
export function count(number) {
  const [size, unit] = COUNTS[language()].find(([least]) => number >= Math.max(least, 1e4)) ?? [1, ""];
  return size === 1 ? number.toLocaleString("en") : `${+(number / size).toPrecision(3)}${unit}`;
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

const TIMES = { en: ["h", "min", "s"], zh: ["小时", "分", "秒"] };

/** Seconds as people write them: 42 s, 3 min 5 s, 2 h 10 min. */
export function duration(seconds) {
  const [hour, minute, second] = TIMES[language()];
  if (seconds < 10) return `${+seconds.toFixed(1)} ${second}`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} ${second}`;
  const [minutes, rest] = [Math.floor(whole / 60), whole % 60];
  if (minutes < 60) return rest ? `${minutes} ${minute} ${rest} ${second}` : `${minutes} ${minute}`;
  return `${Math.floor(minutes / 60)} ${hour} ${minutes % 60} ${minute}`;
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
