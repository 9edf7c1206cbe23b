// The page: what is open, where the eye is, what is traced. Every name goes through textContent, never through HTML.
const data = JSON.parse(document.getElementById("scene").textContent);
const boxes = data.boxes.map((b, i) => ({
  index: i,
  parent: -1,
  kind: "op",
  name: "",
  op: "",
  cls: "",
  shape: "",
  times: 1,
  count: 1,
  heat: 0,
  amount: "",
  chips: [],
  state: "",
  verdict: "",
  root: "",
  pins: [],
  told: "",
  ...b,
}));
const isGroup = (b) => b.kind === "module" || b.kind === "repeat" || b.kind === "part";
const MOST = 500;
const producers = lists(boxes.length),
  consumers = lists(boxes.length);
for (let k = 0; k < data.links.length; k += 2) {
  consumers[data.links[k]].push(data.links[k + 1]);
  producers[data.links[k + 1]].push(data.links[k]);
}
const children = lists(boxes.length);
for (const b of boxes) if (b.parent >= 0) children[b.parent].push(b.index);

const $ = (id) => document.getElementById(id);
const stage = $("stage"),
  world = $("world"),
  tip = $("tip"),
  say = $("say");
const NS = "http://www.w3.org/2000/svg";
const node = (name, attributes, parent, text) => {
  const element = document.createElementNS(NS, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
};

// --- text: measured in the reader's own font, cut in the middle ---------------------------------
const pen = document.createElement("canvas").getContext("2d"),
  family = getComputedStyle(stage).fontFamily;
const FACES = {
  name: ["bold 12px ", 150],
  op: ["12px ", 150],
  solo: ["12px ", 180],
  sub: ["11px ", 150],
  amount: ["11px ", 110],
  chip: ["10.5px ", 96],
  state: ["10.5px ", 180],
};
const known = new Map();
function measured(text, face) {
  return atKey(known, face + text, () => {
    pen.font = FACES[face][0] + family;
    const width = (t) => pen.measureText(t).width,
      room = FACES[face][1];
    let short = text,
      keep = Math.min(text.length, 400);
    while (keep > 0 && width(short) > room) {
      keep--;
      short = text.slice(0, keep >> 1) + "…" + text.slice(text.length - (keep - (keep >> 1)));
    }
    return [short, width(short)];
  });
}
const title = (b) => (b.times > 1 ? `${b.name} × ${b.times.toLocaleString("en")}` : b.name);
const each = (b) => b.amount.replace(/ × .*/, " each");
const headWidth = (b) =>
  measured("▾ " + title(b), "name")[1] +
  measured(each(b), "amount")[1] +
  (b.cls ? measured(b.cls, "op")[1] + 7 : 0) +
  40;
const STATUS = ["cut", "overwritten", "untrained", "frozen", "unknown", "trained", "given"];

function card(b) {
  if (b.card) return b.card;
  const times = b.times > 1 ? ` × ${b.times.toLocaleString("en")}` : "",
    texts = [],
    tags = [];
  const first = isGroup(b)
    ? [
        ["▸ " + title(b), "name"],
        [b.cls, "op"],
      ]
    : b.name
      ? [
          [b.name + times, "name"],
          [b.cls || b.op, "op"],
        ]
      : [[b.op + times, "solo"]];
  const second = isGroup(b)
    ? `${b.count.toLocaleString("en")} op${b.count === 1 ? "" : "s"}${b.shape && ", " + b.shape}`
    : b.shape;
  const write = (x, y, text, face) => {
    if (!text) return x;
    const [short, width] = measured(text, face);
    texts.push({ x, y, text: short, face });
    return x + width + 7;
  };
  let x1 = 9,
    x2 = write(9, 33.5, second, "sub");
  for (const [text, face] of first) x1 = write(x1, 16, text, face);
  const tag = (style, text, hot) => {
    const [short, width] = measured(text, ["bad", "gone", "hooked"].includes(style) ? "state" : "chip");
    tags.push({ x: x2, style, text: short, width: width + 11, hot });
    x2 += width + 15;
  };
  if (b.root) tag("root", b.root);
  if (b.state) tag(b.verdict, b.state);
  for (const [status, text, hot] of b.chips.slice(0, 3)) tag(status, text, hot);
  const rest = b.chips
    .slice(3)
    .map((c) => c[0])
    .sort((p, q) => STATUS.indexOf(p) - STATUS.indexOf(q));
  if (rest.length) tag(rest[0], `+${rest.length}`);
  const [amount, w] = measured(b.amount, "amount");
  const width = Math.max(x1 + (amount ? w + 4 : -7), x2 - (tags.length ? 4 : 7), 40) + 9;
  if (amount) texts.push({ x: width - 9 - w, y: 16, text: amount, face: "amount" });
  return (b.card = { width, height: 42, texts, tags });
}

// --- what is shown ----------------------------------------------------------------------------
let scene,
  layout,
  traced = null,
  found = [],
  at = -1;

function staged() {
  const standsFor = [],
    shown = new Set();
  for (const b of boxes) {
    const around = b.parent < 0 ? -1 : standsFor[b.parent];
    const closed = around >= 0 && !(isGroup(boxes[around]) && boxes[around].open);
    standsFor.push(closed ? around : b.index);
    if (!closed && !(isGroup(b) && b.open)) shown.add(b.index);
  }
  const met = new Set(),
    links = [];
  for (let k = 0; k < data.links.length; k += 2) {
    const a = standsFor[data.links[k]],
      b = standsFor[data.links[k + 1]],
      key = a * boxes.length + b;
    if (a !== b && !met.has(key)) {
      met.add(key);
      links.push([a, b]);
    }
  }
  return { boxes, standsFor, shown, links };
}

const f1 = (v) => Math.round(v * 10) / 10;
const rect = (parent, style, f, rx, shift) =>
  node(
    "rect",
    { class: style, x: f1(f.x + shift), y: f1(f.y + shift), width: f1(f.width), height: f1(f.height), rx },
    parent,
  );
const text = (parent, t, style, x, y) => node("text", { class: style, x: f1(x), y: f1(y) }, parent, t);

function route(points) {
  let out = `M${f1(points[0][0])} ${f1(points[0][1])}`;
  for (let k = 1; k < points.length; k++) {
    const [x0, y0] = points[k - 1],
      [x1, y1] = points[k],
      m = f1((y0 + y1) / 2);
    out += Math.abs(x0 - x1) < 0.05 ? `V${f1(y1)}` : `C${f1(x0)} ${m} ${f1(x1)} ${m} ${f1(x1)} ${f1(y1)}`;
  }
  return out;
}

function show() {
  scene = staged();
  layout = laidOut(scene, (b) => [card(b).width, card(b).height], headWidth);
  world.textContent = "";
  const depth = new Map();
  for (const i of [...layout.frames.keys()].sort((a, b) => a - b)) {
    const b = boxes[i],
      f = layout.frames.get(i);
    depth.set(i, b.parent < 0 ? 0 : depth.get(b.parent) + 1);
    if (scene.shown.has(i)) continue;
    const style = `f${depth.get(i) % 2 ? " odd" : ""}${b.inferred ? " inferred" : ""}`;
    for (const k of b.times > 1 ? [2, 1, 0] : [0]) rect(world, style, f, 8, k * STACKED);
    drawBar(b, f);
  }
  for (const line of layout.lines) drawLine(line);
  for (const i of scene.shown) drawBox(boxes[i], layout.frames.get(i));
  light();
}

function drawLine(line) {
  const hot = line.links.some(([a, b]) => boxes[a].hot && boxes[b].hot) ? " hot" : "";
  const g = node("g", { class: "line" + hot }, world),
    [x, y] = line.points[line.points.length - 1];
  g.links = line.links;
  const points = line.arrow ? [...line.points.slice(0, -1), [x, y - 6]] : line.points;
  node("path", { class: "w" + hot, d: route(points) }, g);
  if (line.arrow) node("path", { class: "a" + hot, d: `M${f1(x - 3.5)} ${f1(y - 7)}h7L${f1(x)} ${f1(y)}z` }, g);
}

function drawBar(b, f) {
  const g = node(
    "g",
    { class: "knob", tabindex: 0, role: "button", "aria-expanded": true, "aria-label": "close " + title(b) },
    world,
  );
  g.box = b;
  const d = `M${f1(f.x)} ${f1(f.y + HEAD)}v-16a8 8 0 0 1 8-8h${f1(f.width - 16)}a8 8 0 0 1 8 8v16z`;
  node("path", { class: "bar", d }, g);
  const [name, long] = measured("▾ " + title(b), "name"),
    [amount, width] = measured(each(b), "amount");
  text(g, name, "name head", f.x + 10, f.y + 16);
  if (b.cls) text(g, measured(b.cls, "op")[0], "op", f.x + 17 + long, f.y + 16);
  if (amount) text(g, amount, "amount head", f.x + f.width - 10 - width, f.y + 16);
}

function drawBox(b, f) {
  const own = card(b),
    group = isGroup(b),
    label = `${group ? "open " : ""}${b.name} ${b.cls} ${b.op} ${b.shape} ${b.amount}`;
  const marks = `${b.hot ? " hot" : ""}${b.verdict === "bad" || b.verdict === "gone" ? " bad" : ""}`;
  const g = node(
    "g",
    {
      class: "box" + marks,
      transform: `translate(${f1(f.x)} ${f1(f.y)})`,
      tabindex: 0,
      role: "button",
      "aria-label": label.replace(/ +/g, " ").trim(),
      ...(group ? { "aria-expanded": false } : {}),
    },
    world,
  );
  g.box = b;
  const home = { x: 0, y: 0, width: f.width, height: f.height },
    style = `n${group ? " g" : ""}${b.heat ? " h" + b.heat : ""}`;
  const rx = b.kind === "op" || b.kind === "leaf" ? 5 : 8;
  if (b.shared) rect(g, "ring", { x: -3.5, y: -3.5, width: f.width + 7, height: f.height + 7 }, rx + 3, 0);
  for (const k of b.times > 1 ? [2, 1, 0] : [0]) rect(g, style, home, rx, k * STACKED);
  for (const t of own.texts) text(g, t.text, t.face, t.x, t.y);
  for (const t of own.tags) {
    const tag = node("g", {}, g);
    node(
      "rect",
      { class: `t ${t.style}${t.hot ? " hot" : ""}`, x: f1(t.x), y: 22, width: f1(t.width), height: 15, rx: 7.5 },
      tag,
    );
    text(tag, t.text, "chip", t.x + 5.5, 33.2);
  }
  if (b.pins.length) {
    const numbers = b.pins.join(","),
      width = measured(numbers, "chip")[1],
      pin = node("g", {}, g);
    node("rect", { class: "t pin", x: f1(-width / 2 - 5.5), y: -7.5, width: f1(width + 11), height: 15, rx: 7.5 }, pin);
    text(pin, numbers, "chip", -width / 2, 3.7);
  }
}

// --- tracing: where a gradient comes from, and where it goes --------------------------------------
function reach(start, next) {
  const seen = new Set([start]),
    queue = [start];
  while (queue.length)
    for (const j of next[queue.pop()])
      if (!seen.has(j)) {
        seen.add(j);
        queue.push(j);
      }
  return new Set([...seen].map((i) => scene.standsFor[i]));
}

const many = (n) => `${n} box${n === 1 ? "" : "es"}`;

function light() {
  const from = traced === null ? null : reach(traced, consumers),
    to = traced === null ? null : reach(traced, producers);
  const hits = new Set(found.map((i) => scene.standsFor[i])),
    own = traced === null ? -1 : scene.standsFor[traced];
  for (const g of world.children) {
    const set = (name, on) => g.classList.toggle(name, on);
    if (g.box && g.classList.contains("box")) {
      const i = g.box.index;
      set("origin", i === own);
      set("from", from !== null && i !== own && from.has(i));
      set("to", to !== null && i !== own && to.has(i));
      set("dim", from !== null && !from.has(i) && !to.has(i));
      set("hit", hits.has(i));
      set("here", at >= 0 && scene.standsFor[found[at]] === i);
    } else if (g.links) {
      const on = (s) => s !== null && g.links.some(([a, b]) => s.has(a) && s.has(b));
      set("from", on(from));
      set("to", on(to));
      set("dim", from !== null && !on(from) && !on(to));
    }
  }
  if (traced === null)
    say.textContent = `${many(scene.shown.size)} · click a module to open it, an operation to trace its gradient`;
  else {
    const b = boxes[traced];
    say.textContent = `${b.name || b.op}: its gradient comes from ${many(from.size - 1)} (red) and goes to ${many(to.size - 1)} (blue) · Esc ends`;
  }
}
