// What the reader does: pan, zoom, open, close, search, trace, by mouse, touch and keyboard.
// --- where the eye is --------------------------------------------------------------------------------
const READABLE = 0.7; // texts of this share of their size are read: all of the picture is better than a part of it
let x = 0,
  y = 0,
  k = 1;
function move() {
  world.setAttribute("transform", `translate(${f1(x)} ${f1(y)}) scale(${k.toFixed(4)})`);
  // What is out of sight is said at the edge behind which it is; a click shows it.
  for (const [id, out] of [
    ["above", y < 0],
    ["below", y + layout.height * k > stage.clientHeight],
  ])
    $(id).hidden = !out;
}
function zoom(factor, cx = stage.clientWidth / 2, cy = stage.clientHeight / 2) {
  const now = Math.min(4, Math.max(0.02, k * factor));
  x = cx - ((cx - x) * now) / k;
  y = cy - ((cy - y) * now) / k;
  k = now;
  move();
}
function fit(readable) {
  const w = stage.clientWidth - 32,
    h = stage.clientHeight - 32;
  k = Math.min(1.25, w / layout.width, h / layout.height);
  const whole = k;
  if (readable && k < READABLE) k = Math.max(k, Math.min(1, w / layout.width));
  x = (stage.clientWidth - layout.width * k) / 2;
  y = Math.max(16, (stage.clientHeight - layout.height * k) / 2);
  if (k > whole) y = stage.clientHeight - 24 - layout.height * k; // the roots are what backward begins at
  move();
}
function bringIntoView(i) {
  const f = layout.frames.get(scene.standsFor[i]);
  if (!f) return;
  const l = x + f.x * k,
    t = y + f.y * k,
    r = l + f.width * k,
    b = t + f.height * k;
  if (l < 20 || r > stage.clientWidth - 20) x += stage.clientWidth / 2 - (l + r) / 2;
  if (t < 20 || b > stage.clientHeight - 20) y += stage.clientHeight / 2 - (t + b) / 2;
  move();
}

// --- opening and closing -------------------------------------------------------------------------------
function toggle(b, open) {
  const before = layout.frames.get(b.index);
  b.open = open;
  show();
  const after = layout.frames.get(b.index);
  if (before && after) {
    x += (before.x + (open ? before.width / 2 - after.width / 2 : 0) - after.x) * k;
    y += (before.y - after.y) * k;
    move();
  }
  focusOn(b.index);
}
function focusOn(i) {
  const target = [...world.children].find((g) => g.box && g.box.index === i);
  if (target) target.focus({ preventScroll: true });
}
function openAll() {
  const queue = boxes.filter((b) => b.parent < 0).map((b) => b.index);
  let room = MOST - queue.length;
  for (const i of queue) {
    const inside = children[i];
    if (!isGroup(boxes[i]) || inside.length - 1 > room) continue;
    boxes[i].open = true;
    room -= inside.length - 1;
    queue.push(...inside);
  }
  show();
  fit(true);
}
function closeAll() {
  for (const b of boxes) b.open = false;
  show();
  fit();
}
function openTo(i) {
  for (let p = boxes[i].parent; p >= 0; p = boxes[p].parent) boxes[p].open = true;
  show();
}
function press(b) {
  if (isGroup(b)) toggle(b, !b.open);
  else {
    traced = traced === b.index ? null : b.index;
    light();
  }
  describe(isGroup(b) ? (b.open ? b : null) : traced === null ? null : b);
}

// All that is known of what was chosen last, beside the picture.
function describe(b) {
  const side = $("side"),
    was = stage.clientWidth;
  side.hidden = !b;
  side.textContent = "";
  if (b) {
    const add = (tag, words, style) => {
      const element = document.createElement(tag);
      element.textContent = words;
      if (style) element.className = style;
      side.appendChild(element);
    };
    add("h2", [title(b), b.cls || b.op].filter(Boolean).join("  "));
    for (const line of b.told.split("\n").slice(0, 60)) add("p", line);
    for (const n of b.pins) add("p", `(${n}) ${data.remarks[n - 1]}`);
  }
  if (stage.clientWidth !== was) {
    x += (stage.clientWidth - was) / 2;
    move();
  }
}

// --- searching ---------------------------------------------------------------------------------------------
const hay = boxes.map((b) =>
  [b.name, b.cls, b.op, b.shape, b.root, b.told, ...b.chips.map((c) => c[1])].join("\n").toLowerCase(),
);
function search(words) {
  found = words
    ? boxes.filter((b) => !isGroup(b) && hay[b.index].includes(words.toLowerCase())).map((b) => b.index)
    : [];
  at = -1;
  light();
  if (found.length) {
    if (k < 0.7) zoom(1 / k);
    bringIntoView(found[0]);
  }
  $("count").textContent = words ? `${found.length.toLocaleString("en")} found` : "";
}
function nextHit(step) {
  if (!found.length) return;
  at = (at + step + found.length) % found.length;
  if (scene.standsFor[found[at]] !== found[at]) openTo(found[at]);
  light();
  if (k < 0.7) zoom(1 / k);
  bringIntoView(found[at]);
  $("count").textContent = `${at + 1} of ${found.length.toLocaleString("en")}`;
}

// --- the tooltip ---------------------------------------------------------------------------------------------
function hint(g, cx, cy) {
  tip.hidden = !g;
  if (!g) return;
  tip.textContent = g.box.told + g.box.pins.map((n) => `\n(${n}) ${data.remarks[n - 1]}`).join("");
  const w = tip.offsetWidth,
    h = tip.offsetHeight;
  tip.style.left = Math.max(8, Math.min(cx + 14, innerWidth - w - 8)) + "px";
  tip.style.top = Math.max(8, cy + 18 + h > innerHeight ? cy - h - 12 : cy + 18) + "px";
}

// --- hands -----------------------------------------------------------------------------------------------------
const target = (e) => e.target.closest && e.target.closest(".box,.knob");
const held = new Map();
let dragged = false;
stage.addEventListener("pointerdown", (e) => {
  held.set(e.pointerId, [e.clientX, e.clientY]);
  dragged = false;
});
addEventListener("pointermove", (e) => {
  const old = held.get(e.pointerId);
  if (!old) {
    const g = target(e);
    hint(g, e.clientX, e.clientY);
    return;
  }
  const dx = e.clientX - old[0],
    dy = e.clientY - old[1];
  if (!dragged && Math.abs(dx) + Math.abs(dy) < 4) return;
  dragged = true;
  hint(null);
  if (held.size === 2) {
    const other = [...held].find(([id]) => id !== e.pointerId)[1],
      box = stage.getBoundingClientRect();
    const was = Math.hypot(old[0] - other[0], old[1] - other[1]),
      is = Math.hypot(e.clientX - other[0], e.clientY - other[1]);
    zoom(is / (was || 1), other[0] - box.left, other[1] - box.top);
  } else {
    x += dx;
    y += dy;
    move();
  }
  held.set(e.pointerId, [e.clientX, e.clientY]);
});
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, (e) => held.delete(e.pointerId));
stage.addEventListener("click", (e) => {
  const g = target(e);
  if (dragged) return;
  if (g) {
    hint(null);
    press(g.box);
  } else if (traced !== null) {
    traced = null;
    light();
    describe(null);
  }
});
stage.addEventListener(
  "wheel",
  (e) => {
    e.preventDefault();
    hint(null);
    const box = stage.getBoundingClientRect(),
      lines = e.deltaMode ? 16 : 1;
    if (e.ctrlKey || e.metaKey || !e.shiftKey)
      zoom(Math.exp(-e.deltaY * lines * 0.0015), e.clientX - box.left, e.clientY - box.top);
    else {
      x -= e.deltaY * lines;
      move();
    }
  },
  { passive: false },
);
// On the window: an SVG element that listens to the focus would itself take it.
addEventListener("focusin", (e) => {
  const g = target(e);
  if (!g || !g.matches(":focus-visible")) return;
  bringIntoView(g.box.index);
  const box = g.getBoundingClientRect();
  hint(g, box.right, box.top);
});
addEventListener("focusout", () => hint(null));
$("find").addEventListener("input", (e) => search(e.target.value));
$("find").addEventListener("keydown", (e) => {
  if (e.key === "Enter") nextHit(e.shiftKey ? -1 : 1);
  if (e.key === "Escape") {
    e.target.value = "";
    search("");
    e.target.blur();
  }
  e.stopPropagation();
});
for (const [id, act] of [
  ["open", openAll],
  ["close", closeAll],
  ["fit", () => fit()],
  ["in", () => zoom(1.25)],
  ["out", () => zoom(0.8)],
  ["above", () => ((y = 16), move())],
  ["below", () => ((y = stage.clientHeight - 24 - layout.height * k), move())],
])
  $(id).addEventListener("click", act);
function neighbour(b, next) {
  const inside = (i) => scene.standsFor[i] === b.index;
  for (let i = 0; i < boxes.length; i++)
    if (inside(i)) for (const j of next[i]) if (!inside(j)) return scene.standsFor[j];
  return -1;
}
const KEYS = {
  "/": () => $("find").focus(),
  f: () => fit(),
  o: openAll,
  c: closeAll,
  "+": () => zoom(1.25),
  "=": () => zoom(1.25),
  "-": () => zoom(0.8),
  Escape: () => {
    traced = null;
    hint(null);
    light();
    describe(null);
  },
};
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const g = document.activeElement && document.activeElement.box ? document.activeElement : null;
  if (g && (e.key === "Enter" || e.key === " ")) press(g.box);
  else if (g && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
    const i = neighbour(g.box, e.key === "ArrowDown" ? consumers : producers);
    if (i >= 0) focusOn(i);
  } else if (e.key.startsWith("Arrow")) {
    x += e.key === "ArrowLeft" ? 60 : e.key === "ArrowRight" ? -60 : 0;
    y += e.key === "ArrowUp" ? 60 : e.key === "ArrowDown" ? -60 : 0;
    move();
  } else if (KEYS[e.key]) KEYS[e.key]();
  else return;
  e.preventDefault();
});
// On one sheet; what could then not be read runs over several, at most as wide as one of A4 is.
addEventListener("beforeprint", () => {
  const w = layout.width + 32,
    h = layout.height + 80,
    scale = Math.min(1, 700 / w),
    long = h * scale > 1800;
  stage.setAttribute("viewBox", `-16 ${long ? -64 : -16} ${w} ${h}`);
  world.removeAttribute("transform");
  document.body.classList.toggle("long", long);
  if (long) stage.style.height = h * scale + "px";
});
addEventListener("afterprint", () => {
  stage.removeAttribute("viewBox");
  stage.style.height = "";
  move();
});
show();
fit(true);
