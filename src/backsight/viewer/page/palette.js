// Colours of numbers. The ramp grows lighter all the way, so that it reads without colour vision and in print.
const RAMP = ["#1b1032", "#2c2a6b", "#2a5583", "#237d8a", "#35a27a", "#8cc152", "#f4e04d"];
const RAMP_ON_DARK = ["#4d3a8c", "#44519f", "#2f6b9f", "#2a8a95", "#35a27a", "#8cc152", "#f4e04d"]; // the lowest differs from the page
const SIGNED = ["#0b4f8a", "#4a90c2", "#a9cbe2", "#e8e8e6", "#efb99a", "#d6704a", "#9a2c16"];

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
function table(ramp) {
  const stops = ramp.map(channels),
    out = new Uint8Array(256 * 3);
  for (let k = 0; k < 256; k++) {
    const place = (k / 255) * (stops.length - 1),
      from = Math.min(Math.floor(place), stops.length - 2),
      share = place - from;
    for (let c = 0; c < 3; c++) out[3 * k + c] = Math.round(stops[from][c] * (1 - share) + stops[from + 1][c] * share);
  }
  return out;
}
// A pixel of an image as one number: the bytes red, green, blue and opaque, in the order of all machines with a browser.
const pixel = (r, g, b) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
const pixelsOf = (kind) => {
  if (!PIXELS[kind]) {
    PIXELS[kind] = new Uint32Array(256);
    for (let k = 0; k < 256; k++) PIXELS[kind][k] = pixel(...TABLES[kind].subarray(3 * k, 3 * k + 3));
  }
  return PIXELS[kind];
};
const TABLES = { signed: table(SIGNED) },
  PIXELS = {};
const chooseRamp = () => {
  delete PIXELS.ramp;
  TABLES.ramp = table(theme.dark ? RAMP_ON_DARK : RAMP);
};
chooseRamp();
theme.heard.unshift(chooseRamp);
const color = (kind, share) => {
  const at = 3 * clamp(Math.round(share * 255), 0, 255),
    t = TABLES[kind];
  return `rgb(${t[at]},${t[at + 1]},${t[at + 2]})`;
};

// How a statistic is shown: fractions and signed numbers evenly, all others by their magnitude.
const SIGNED_STATS = new Set(["mean", "min", "max"]);
const EVEN_STATS = new Set(["zero_fraction"]);

// The scale of what a picture of tensors shows: of the tensors themselves, so that the heatmap and the graph have the same.
function scaleOfTensors(values, wide, rows, stat) {
  const chosen = new Set(rows),
    all = values.length / (wide || 1);
  if (chosen.size >= all) return scaleOf(values, stat);
  const kept = new Float32Array(chosen.size * wide);
  [...chosen]
    .sort((a, b) => a - b)
    .forEach((row, k) => kept.set(values.subarray(row * wide, (row + 1) * wide), k * wide));
  return scaleOf(kept, stat);
}

// The scale of many values: the middle 99 % of them, so that one outlier does not wash out the rest.
function scaleOf(values, stat, tight = false) {
  const stride = Math.max(1, Math.floor(values.length / 20000)),
    few = new Float64Array(Math.ceil(values.length / stride));
  let there = 0;
  for (let k = 0; k < values.length; k += stride) if (Number.isFinite(values[k])) few[there++] = values[k];
  const finite = few.subarray(0, there).sort();
  const at = (share) => finite[clamp(Math.round(share * (finite.length - 1)), 0, finite.length - 1)];
  if (!finite.length) return { kind: "ramp", low: 0, high: 1, log: false, share: () => 0, none: true };
  const beyond = (scale) => ({ ...scale, under: finite[0] < scale.low, over: finite[finite.length - 1] > scale.high });
  if (SIGNED_STATS.has(stat) && finite[0] < 0) {
    const most = Math.max(Math.abs(at(0.005)), Math.abs(at(0.995))) || 1;
    return beyond({
      kind: "signed",
      low: -most,
      high: most,
      log: false,
      share: (v) => clamp((v + most) / (2 * most), 0, 1),
    });
  }
  if (EVEN_STATS.has(stat)) return { kind: "ramp", low: 0, high: 1, log: false, share: (v) => clamp(v, 0, 1) };
  const positive = finite.filter((v) => v > 0);
  if (positive.length > 1) {
    const low = positive[Math.floor(0.005 * (positive.length - 1))],
      high = positive[Math.ceil(0.995 * (positive.length - 1))];
    if (high / low > (tight ? 1.0001 : 4)) {
      const from = Math.log(low),
        span = Math.log(high) - from;
      return beyond({
        kind: "ramp",
        low,
        high,
        log: true,
        share: (v) => (v > 0 ? clamp((Math.log(v) - from) / span, 0, 1) : 0),
      });
    }
  }
  const low = Math.min(at(0.005), 0),
    high = at(0.995) > low ? at(0.995) : low + 1;
  return beyond({ kind: "ramp", low, high, log: false, share: (v) => clamp((v - low) / (high - low), 0, 1) });
}

function legend(scale, name, show = num) {
  const stops = Array.from({ length: 13 }, (_, k) => color(scale.kind, k / 12)).join(",");
  const bar = h("span", { class: "ramp" });
  bar.style.background = `linear-gradient(90deg,${stops})`;
  return h(
    "div",
    { class: "legend" },
    h("span", { class: "soft" }, name),
    scale.none
      ? null
      : scale.own
        ? [h("span", {}, "low"), bar, h("span", {}, "high"), h("span", { class: "soft" }, "each row has its own scale")]
        : [
            h("b", {}, `${scale.under ? "≤ " : ""}${show(scale.low)}`),
            bar,
            h("b", {}, `${scale.over ? "≥ " : ""}${show(scale.high)}`),
            h("span", { class: "soft" }, `${scale.log ? "log" : "even"} scale of this run`),
          ],
    [
      ["nonfinite", "NaN or ∞"],
      ["zero", "exactly zero"],
      ["nothing", "not recorded"],
    ].map(([mark, text]) => h("span", { class: "key" }, h("span", { class: `swatch ${mark}` }), text)),
  );
}
