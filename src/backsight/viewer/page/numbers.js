// Numbers as people read them. Values arrive as base64 of typed arrays.
const KINDS = { f4: Float32Array, u1: Uint8Array, f8: Float64Array };
function unpacked(held) {
  return new KINDS[held.kind](fromBase64(held.data).buffer);
}
function fromBase64(data) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(data);
  const text = atob(data), // in browsers of before 2025
    bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return bytes;
}
const WORDS = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const asNumber = (v) => (typeof v === "string" && v in WORDS ? WORDS[v] : v);

function num(v, digits = 3) {
  v = asNumber(v);
  if (v === null || v === undefined) return "–";
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  if (v === 0) return "0";
  const size = Math.abs(v);
  let text;
  if (Number.isInteger(v) && size < 1e6) text = grouped(v);
  else if (size >= 1e5 || size < 1e-3)
    text = v
      .toExponential(digits - 1)
      .replace("e+", "e")
      .replace(/e(-?)(\d+)/, (_, s, d) => `e${s ? "−" : ""}${d}`);
  else text = Number(v.toPrecision(digits)).toString();
  return text.replace(/^-/, "−").replace(/\.?0+e/, "e");
}
// As `toLocaleString("en")` writes whole numbers, whose first call takes longer than to draw a picture.
const grouped = (v) => (Number.isSafeInteger(v) ? String(v).replace(/\B(?=(\d{3})+$)/g, ",") : v.toLocaleString("en"));
const count = (v) => (v === null || v === undefined ? "–" : grouped(v));
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const percent = (v) => (Number.isFinite(v) ? `${num(100 * v)}\u00a0%` : num(v));
const shaped = (shape) => (shape === null || shape === undefined ? "" : shape.length ? shape.join(" × ") : "scalar");
function bytes(n, digits) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let k = 0;
  while (n >= 999.5 && k < units.length - 1) {
    n /= 1024;
    k++;
  }
  return `${k ? num(n, digits) : n} ${units[k]}`;
}
function moment(seconds) {
  const date = new Date(seconds * 1000),
    now = new Date();
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === now.toDateString()) return `today ${time}`;
  const day = date.toLocaleDateString("en-GB", {
    day: "numeric",
    month: "short",
    year: date.getFullYear() === now.getFullYear() ? undefined : "numeric",
  });
  return `${day} ${time}`;
}
const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

// Round multiples of the unit in which the largest is written.
function byteTicks(low, high, most, ofNumbers = ticks) {
  let unit = 1;
  while (high / unit >= 999.5 && unit < 1024 ** 4) unit *= 1024;
  return ofNumbers(low / unit, high / unit, most).map((v) => v * unit);
}

// Whether two numbers differ by rounding alone: between them are no steps that could be counted.
const isFlat = (low, high) => high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high));

// Round values for the ticks of an axis: multiples of 1, 2 or 5 times a power of ten. There are two at least, as one alone
// says nothing of the scale.
function ticks(low, high, most) {
  if (!(high > low) || isFlat(low, high)) return [low];
  const rough = high / Math.max(most, 1) - low / Math.max(most, 1),
    power = 10 ** Math.floor(Math.log10(rough));
  const steps = [10, 5, 2, 1, 0.5, 0.2, 0.1].map((m) => m * power),
    fewest = steps.findLastIndex((s) => s >= rough * 0.999);
  let found = [];
  for (const step of steps.slice(fewest)) {
    found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step + 0);
    if (found.length > 1) break;
  }
  return found;
}
function logTicks(low, high, most) {
  const from = Math.floor(Math.log10(low) - 1e-9),
    to = Math.floor(Math.log10(high) + 1e-9);
  for (const within of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let k = from; k <= to && found.length <= most; k++)
      for (const m of within) {
        const v = Number(`${m}e${k}`);
        if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) found.push(v);
      }
    const isClear = found.every((v, k) => !k || Math.log(v / found[k - 1]) * most > 0.6 * Math.log(high / low));
    if (isClear && found.length <= Math.max(most, 2))
      return found.length > 1 ? found : ticks(low, high, most).filter((v) => v > 0);
  }
  const stride = Math.ceil((to - from + 1) / Math.max(most, 2));
  const found = [];
  for (let k = to; k >= from; k -= stride) found.unshift(Number(`1e${k}`));
  return found.filter((v) => v >= low * (1 - 1e-9));
}
