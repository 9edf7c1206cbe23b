const data = JSON.parse(document.getElementById("data").textContent);
const chart = document.getElementById("chart"),
  NS = "http://www.w3.org/2000/svg",
  hidden = new Set();
const HEIGHT = 380,
  LEFT = 64,
  RIGHT = 12,
  TOP = 26,
  BOTTOM = 26,
  ROWS = 25,
  COLUMN = 2,
  SEEN = 8;
let range = [0, data.end],
  moment = data.peak.at,
  held = false,
  width = 900,
  drag = null;

const color = (slug) => `var(--${slug})`;
const slugOf = Object.fromEntries(data.kinds.map((k) => [k.kind, k.slug]));
function amount(n) {
  if (n < 999.5) return `${Math.round(n)} B`;
  let unit = "";
  for (unit of ["KB", "MB", "GB", "TB"]) {
    n /= 1024;
    if (n < 999.5) break;
  }
  return `${n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0)} ${unit}`;
}
function time(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return Math.abs(ms) < 0.9995 && ms ? `${+(ms * 1000).toPrecision(3)} µs` : `${ms.toPrecision(3)} ms`;
}
// What stands in backquotes is code, as in the headline.
function write(cell, text) {
  for (const [at, part] of text.split("`").entries()) {
    if (at % 2 === 0) cell.append(part);
    else cell.appendChild(document.createElement("code")).textContent = part;
  }
}
function node(name, attributes, parent, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
const shown = () => data.kinds.filter((k) => !hidden.has(k.kind));
const totalAt = (i) => shown().reduce((sum, k) => sum + k.bytes[i], 0);
const x = (ms) => LEFT + ((ms - range[0]) / (range[1] - range[0])) * (width - LEFT - RIGHT);
const toTime = (px) => range[0] + ((px - LEFT) / (width - LEFT - RIGHT)) * (range[1] - range[0]);
function indexAt(ms) {
  // the last moment that is not after ms
  let low = 0,
    high = data.times.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    data.times[mid] <= ms ? (low = mid) : (high = mid - 1);
  }
  return low;
}
function ticks(top) {
  const rough = top / 5,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough),
    found = [];
  for (let n = 0; n <= top; n += step) found.push(n);
  return found;
}
function draw() {
  width = chart.clientWidth || 900;
  chart.replaceChildren();
  const svg = node("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT }, chart);
  const first = indexAt(range[0]),
    last = indexAt(range[1]),
    kept = [];
  for (let px = LEFT, i = first; px < width - RIGHT; px += COLUMN) {
    // each shows its most: no spike is narrower
    let most = i;
    while (i < last && x(data.times[i + 1]) < px + COLUMN) if (totalAt(++i) > totalAt(most)) most = i;
    kept.push(most);
  }
  const top = Math.max(1, ...kept.map(totalAt)) * 1.12;
  const y = (n) => HEIGHT - BOTTOM - (n / top) * (HEIGHT - TOP - BOTTOM);
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(top) / 10)),
    named = amount(unit).split(" ")[1];
  for (const k of ticks(top / unit)) {
    const n = k * unit,
      text = k ? `${+k.toPrecision(5)} ${named}` : "0";
    node("line", { x1: LEFT, x2: width - RIGHT, y1: y(n), y2: y(n), stroke: "var(--edge)" }, svg);
    node("text", { x: LEFT - 8, y: y(n) + 4, "text-anchor": "end" }, svg, text);
  }
  const clip = node("clipPath", { id: "clip" }, svg);
  node("rect", { x: LEFT, y: 0, width: width - LEFT - RIGHT, height: HEIGHT }, clip);
  const inside = node("g", { "clip-path": "url(#clip)" }, svg);
  let below = kept.map(() => 0);
  for (const kind of shown()) {
    const above = kept.map((i, at) => below[at] + kind.bytes[i]);
    node("path", { d: area(kept, below, above, y), fill: color(kind.slug) }, inside);
    below = above;
  }
  phases(svg, inside);
  const px = x(data.times[data.peak.at]),
    py = y(data.peak.bytes),
    right = px > width * 0.6;
  if (px >= LEFT && px <= width - RIGHT && !hidden.size) {
    const lasts = (data.times[data.peak.at + 1] ?? data.end) - data.times[data.peak.at],
      lasting = lasts && x(lasts) - x(0) < SEEN ? ` for ${time(lasts)}` : "";
    const ring = { fill: "var(--ground)", stroke: "var(--ink)", "stroke-width": 1.5 };
    const side = right ? { x: px - 9, "text-anchor": "end" } : { x: px + 9, "text-anchor": "start" };
    peakColumn(inside, px, y);
    node("circle", { cx: px, cy: py, r: 4, ...ring }, svg);
    node("text", { ...side, y: py - 6, class: "name" }, svg, `peak ${amount(data.peak.bytes)}${lasting}`);
  }
  const marks = ticks(range[1] - range[0]),
    begin = Math.ceil(range[0] / marks[1]) * marks[1];
  for (const n of marks) {
    const ms = begin + n;
    const text = ms ? `${+ms.toPrecision(5)} ms` : "0";
    if (ms <= range[1]) node("text", { x: x(ms), y: HEIGHT - 7, "text-anchor": "middle" }, svg, text);
  }
  node("line", { id: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, stroke: "var(--ink)", "stroke-width": 1 }, svg);
  node(
    "rect",
    { id: "brush", y: TOP, height: HEIGHT - TOP - BOTTOM, width: 0, fill: "var(--ink)", opacity: 0.12 },
    svg,
  );
  point();
}
// A peak of a moment is as wide as can be seen on both sides of the mark above it.
function peakColumn(inside, px, y) {
  let below = 0;
  for (const kind of shown()) {
    const above = below + kind.bytes[data.peak.at];
    const rect = { x: px - SEEN / 2, width: SEEN, y: y(above), height: y(below) - y(above) };
    node("rect", { ...rect, fill: color(kind.slug), class: "at-peak" }, inside);
    below = above;
  }
}
function area(kept, below, above, y) {
  let d = `M${LEFT},${y(below[0])}`;
  kept.forEach((_, at) => (d += `V${y(above[at]).toFixed(2)}H${LEFT + (at + 1) * COLUMN}`));
  for (let at = kept.length - 1; at >= 0; at--) d += `V${y(below[at]).toFixed(2)}H${LEFT + at * COLUMN}`;
  return d + "Z";
}
// Whether the label of the last part, which is too short for it, would meet the one before it.
const meetsLabel = (number, room) => {
  const before = data.passes[number - 1];
  if (!before) return false;
  const middle = (Math.max(x(before[1]), LEFT) + Math.min(x(before[2]), width - RIGHT)) / 2;
  return middle + before[0].length * 4 > width - RIGHT - room;
};
function phases(svg, inside) {
  for (const [number, [phase, began, ended]] of data.passes.entries()) {
    const from = Math.max(x(began), LEFT),
      to = Math.min(x(ended), width - RIGHT);
    if (to - from < 3) continue;
    const line = { x1: from, x2: from, y1: TOP - 10, y2: HEIGHT - BOTTOM, stroke: "var(--edge)" };
    if (number && from > LEFT) node("line", line, inside);
    const room = phase.length * 7 + 8;
    if (to - from > room) node("text", { x: (from + to) / 2, y: 14, "text-anchor": "middle" }, svg, phase);
    else if (number === data.passes.length - 1 && !meetsLabel(number, room))
      node("text", { x: to, y: 14, "text-anchor": "end" }, svg, phase);
  }
}
function point() {
  const ms = data.times[moment],
    line = document.getElementById("cursor");
  line.setAttribute("x1", x(ms));
  line.setAttribute("x2", x(ms));
  line.setAttribute("visibility", x(ms) < LEFT || x(ms) > width - RIGHT ? "hidden" : "visible");
  const span = data.spans.filter((s) => s[1] <= ms).pop(),
    where = span ? `, ${span[0]}` : "";
  const all = data.kinds.reduce((sum, k) => sum + k.bytes[moment], 0);
  const peak = moment === data.peak.at ? "At the peak, " : "";
  document.getElementById("moment").textContent = `${peak}${time(ms)}${where}: ${amount(all)}`;
  legend();
  alive(ms);
}
function legend() {
  const box = document.getElementById("legend");
  box.replaceChildren();
  for (const kind of [...data.kinds].reverse()) {
    const button = document.createElement("button"),
      swatch = document.createElement("i");
    swatch.style.background = color(kind.slug);
    button.append(swatch, `${kind.kind} ${amount(kind.bytes[moment])}`);
    button.setAttribute("aria-pressed", !hidden.has(kind.kind));
    button.onclick = () => {
      hidden.has(kind.kind) ? hidden.delete(kind.kind) : hidden.add(kind.kind);
      draw();
    };
    box.append(button);
  }
}
function alive(ms) {
  const body = document.getElementById("alive"),
    rounded = 1e-4;
  body.replaceChildren();
  const lives = (born, died) => born <= ms + rounded && (died === null || died > ms + rounded);
  const there = data.blocks.filter((b) => lives(b[8], b[9]) && !hidden.has(b[4]));
  for (const [name, bytes, shape, dtype, kind, module, source, made, born, died] of there.slice(0, ROWS)) {
    const row = body.insertRow(),
      swatch = document.createElement("i");
    swatch.style.background = color(slugOf[kind]);
    const span = `${born < 0 ? "before" : time(born)} – ${died === null ? "after" : time(died)}`;
    const form = `${shape} ${dtype}`.trim();
    const cells = [[name], [amount(bytes), 1], [form], [kind], [module], [source], [made], [span, 1]];
    for (const [text, numeric] of cells) {
      const cell = row.insertCell();
      cell.title = text.replaceAll("`", "");
      write(cell, text);
      if (numeric) cell.className = "n";
    }
    row.cells[0].prepend(swatch);
  }
  const more = there.length - Math.min(there.length, ROWS);
  if (more > 0 || data.rest > 0) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = 8;
    const said = more > 0 ? [`${more.toLocaleString("en")} more`] : [];
    if (data.rest > 0) said.push(`what is alive of ${data.rest.toLocaleString("en")} smaller ones`);
    cell.textContent = said.join(" and ");
    cell.style.color = "var(--faint)";
  }
}
const offset = (event) => Math.min(Math.max(event.clientX - chart.getBoundingClientRect().left, LEFT), width - RIGHT);
chart.addEventListener("pointermove", (event) => {
  if (drag !== null) {
    const brush = document.getElementById("brush"),
      px = offset(event);
    brush.setAttribute("x", Math.min(drag, px));
    brush.setAttribute("width", Math.abs(px - drag));
  } else if (!held) {
    moment = indexAt(toTime(offset(event)));
    point();
  }
});
chart.addEventListener("pointerdown", (event) => {
  drag = offset(event);
});
window.addEventListener("pointerup", (event) => {
  if (drag === null) return;
  const px = offset(event),
    from = toTime(Math.min(drag, px)),
    to = toTime(Math.max(drag, px));
  const moved = Math.abs(px - drag);
  drag = null;
  if (moved > 6) {
    range = [from, to];
    draw();
    return;
  }
  held = !held;
  moment = indexAt(toTime(px));
  point();
});
chart.addEventListener("pointerleave", () => {
  if (!held && drag === null) {
    moment = data.peak.at;
    point();
  }
});
chart.addEventListener("dblclick", () => {
  range = [0, data.end];
  held = false;
  draw();
});
chart.addEventListener("keydown", (event) => {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!way) return;
  held = true;
  moment = Math.min(Math.max(moment + way, 0), data.times.length - 1);
  event.preventDefault();
  point();
});
window.addEventListener("resize", draw);
draw();
