// The model over time: rows are tensors in the order of the modules, columns are steps, colour is a statistic.
const LEAST_ROW = 18,
  MOST_ROW = 56, // rows grow to fill the page
  GUTTER = 232,
  AXIS = 26; // as in viewer.css

const heatAsked = ({ kind, stat, first, last, rank }) => ({
  ...{ kind, stat, first, last, rank },
  columns: LIVE ? 600 : 300,
});
function heatmapPage(state, info, app) {
  if (!info.steps.count)
    return empty(
      "No step recorded yet",
      info.state === "recording"
        ? "This page fills as soon as there is one."
        : "The run ended before its first step was complete.",
    );
  const kind = info.kinds.includes(state.kind) ? state.kind : info.kinds[0];
  const stats = [...HEAT_STATS.filter((s) => info.stats.includes(s)), ...info.metrics];
  const stat = [...info.stats, ...info.metrics].includes(state.stat)
    ? state.stat
    : kind === "output" || kind === "input"
      ? "std"
      : "l2";
  const closed =
    state.closed === undefined
      ? overview(info, kind)
      : new Set(state.closed.split(",").filter(Boolean).map(decodeURIComponent));
  const isSpread = state.stat === SPREAD,
    shown = isSpread ? SPREAD : stat;
  const go = (change) => app.go({ ...state, kind, stat: shown, ...change });
  const find = searchBox("a tensor", state.find, (text) => {
    state.find = text;
    app.note({ ...state, kind, stat: shown });
    draw();
  });
  const zoomed = state.first !== undefined || state.last !== undefined;
  const given = heatAsked({ ...state, kind, stat });
  const place = h("div", { class: "heat" }, busy("reading"));
  const below = h("div", { class: "under" });
  const page = h(
    "section",
    { class: "page" },
    h(
      "div",
      { class: "bar" },
      segments(
        "kind",
        info.kinds.slice(0, 5).map((k) => [k, kindName(k)]),
        kind,
        (k) => go({ kind: k, stat: isSpread ? SPREAD : undefined }),
      ),
      info.kinds.length > 5
        ? select(
            "",
            [["", "more kinds"], ...info.kinds.slice(5).map((k) => [k, kindName(k)])],
            info.kinds.indexOf(kind) > 4 ? kind : "",
            (k) => k && go({ kind: k, stat: isSpread ? SPREAD : undefined }),
          )
        : null,
      select(
        "statistic",
        [...stats, SPREAD].map((s) => [s, STAT_NAMES[s] || s]),
        isSpread ? SPREAD : stat,
        (s) => go({ stat: s }),
      ),
      rankField(state, info, kind, (rank) => go({ rank })),
      isSpread
        ? null
        : select(
            "scale",
            [
              ["", "shared"],
              ["row", "per row"],
            ],
            state.scale || "",
            (scale) => go({ scale: scale || undefined }),
          ),
      find,
      zoomed
        ? h("button", { onclick: () => go({ first: undefined, last: undefined }) }, "all steps")
        : h("span", { class: "hint" }, isSpread ? "click to open" : "drag to zoom, click to open"),
    ),
    place,
    below,
  );
  let read = null;
  const draw = () =>
    isSpread
      ? spreads(place, below, { state, info, kind, app })
      : read && drawHeat(place, below, ...read, { state, info, closed, go, kind, stat, app });
  if (isSpread) {
    draw();
    return page;
  }
  app.refreshed = async () => {
    const answered = ask(state.run, "heatmap", given, app.signal);
    // The picture of a long run does not wait for its tags: a million of them take longer than it.
    if (!read && info.steps.count > LONG_RUN) {
      read = [await answered, { lines: {} }];
      draw();
      await seen();
    }
    read = await Promise.all([answered, ask(state.run, "marks", { rank: state.rank }, app.signal)]);
    draw();
  };
  app.refreshed().catch((error) => error.name === "AbortError" || fill(place, failed(error)));
  return page;
}

const UNDER = 190; // what stands below the rows: the legend and the loss
const HEAT_STATS = ["l2", "std", "mean", "absmax", "min", "max", "zero_fraction", "nonfinite"];
const STAT_NAMES = {
  l2: "norm",
  zero_fraction: "share of zeros",
  absmax: "largest magnitude",
  nonfinite: "NaN and ∞",
  std: "standard deviation",
  spread: "distribution of values",
  min: "min",
  max: "max",
  m2: "spread (m2)",
  nans: "NaN",
  infs: "infinite",
  count: "elements",
};
const KIND_NAMES = {
  grad: "gradients",
  weight: "weights",
  output: "outputs",
  eval_output: "outputs in evaluation",
  eval_input: "inputs in evaluation",
  input: "inputs",
  state: "optimizer state",
  update: "updates",
  averaged_grad: "averaged gradients",
  output_grad: "output gradients",
  buffer: "buffers",
  variable: "variables",
};
// Under DDP, where all ranks hold the same weights, a gradient as it arrives is that of one rank's part of the batch.
const kindName = (kind) => (kind === "grad" && app.info?.replicated ? "local gradients" : KIND_NAMES[kind] || kind);
const isLocal = (kind, info) => info.replicated && kind === "grad";
const ALL_RANKS = "all";
const MOST_RANKS = 256; // in a list to choose from; of more a number is asked for
function rankField(state, info, kind, change) {
  if (!LIVE || info.ranks.length < 2) return null;
  const all = isLocal(kind, info) ? "all, side by side" : "all, merged",
    every = info.rank === null ? "" : ALL_RANKS; // of very many ranks one is shown until all are asked for
  if (info.ranks.length <= MOST_RANKS)
    return select("rank", [[every, all], ...info.ranks.map((r) => [String(r), String(r)])], state.rank || "", (r) =>
      change(r || undefined),
    );
  const box = h("input", {
    type: "number",
    min: info.ranks[0],
    max: info.ranks[info.ranks.length - 1],
    placeholder: all,
    value: state.rank === ALL_RANKS ? "" : state.rank,
    title: "a rank; all of them if this is empty, which takes a while",
    "aria-label": "rank",
    onchange: () => change(box.value || ALL_RANKS),
  });
  return h("label", { class: "field" }, h("span", {}, `rank, of ${count(info.ranks.length)}`), box);
}
const LOCAL =
  "each rank's own gradients, before DDP averages them; a norm over all ranks is that of all their elements together";
const NOT_FINITE = ["", "NaN", "∞", "NaN and ∞"]; // as the server numbers it
const showing = (stat) => (stat === "zero_fraction" ? percent : num);

function drawHeat(place, below, answer, marks, { state, info, closed, go, kind, stat, app }) {
  const values = unpacked(answer.values),
    bad = unpacked(answer.nonfinite),
    wide = answer.columns;
  const at = new Map(answer.tensors.map(([name, k], row) => [`${k} ${name}`, row]));
  const none = overview(info, kind).size ? "-" : undefined; // how an address says that no module is closed
  if (state.closed === undefined && state.find) closed = new Set(); // what was found is not hidden in a closed module
  const rows = rowsOf(info, [kind], closed, state.find || "");
  if (!wide) {
    fill(place, empty("Nothing of this kind in these steps"));
    fill(below);
    return;
  }
  if (!rows.length) {
    const all = info.modules.flatMap((m) => m.tensors.filter(([, k]) => k === kind).map(([name]) => name));
    place.style.maxHeight = "";
    fill(
      place,
      noMatch(state.find, all, `the ${kindName(kind)}`, (name) => go({ find: name })),
    );
    fill(below);
    return;
  }
  const show = showing(stat),
    last = answer.first + wide * answer.stretch - 1;
  const lastSeen = Math.min(last, info.steps.last);
  const members = rows.map((row) =>
    (row.group !== undefined ? row.tensors : row.idle ? [] : [[row.name, row.kind]])
      .map(([n, k]) => at.get(`${k} ${n}`))
      .filter((r) => r !== undefined),
  );
  // A row of colours for each row: of a closed module the largest magnitude, so that nothing hides in it.
  const off = document.createElement("canvas");
  off.width = wide;
  off.height = rows.length;
  const painter = off.getContext("2d"),
    image = painter.createImageData(wide, rows.length),
    found = new Float32Array(rows.length * wide),
    marked = new Uint8Array(rows.length * wide);
  const pixels = new Uint32Array(image.data.buffer),
    zero = pixel(...channels(ink("zero")));
  members.forEach((inside, row) => {
    for (let c = 0; c < wide; c++) {
      let v = NaN,
        wrong = 0;
      for (const r of inside) {
        const each = values[r * wide + c];
        if (!Number.isNaN(each) && (Number.isNaN(v) || Math.abs(each) > Math.abs(v))) v = each;
        wrong |= bad[r * wide + c];
      }
      const k = row * wide + c;
      found[k] = v;
      marked[k] = wrong;
    }
  });
  // What is shown tells the scale: of the rows that were found, in the steps that were zoomed into.
  const whole = scaleOfTensors(values, wide, members.flat(), stat),
    own = state.scale === "row";
  for (let row = 0; row < rows.length; row++) {
    const inside = found.subarray(row * wide, (row + 1) * wide),
      scale = own ? scaleOf(inside, stat, true) : whole,
      shades = pixelsOf(scale.kind);
    for (let c = 0; c < wide; c++) {
      const v = inside[c];
      if (!Number.isNaN(v))
        pixels[row * wide + c] = v === 0 && (scale.log || own) ? zero : shades[Math.round(scale.share(v) * 255)];
    }
  }
  painter.putImageData(image, 0, 0);

  const above = place.getBoundingClientRect().top + scrollY,
    ROW = clamp(Math.floor((innerHeight - above - AXIS - UNDER) / rows.length), LEAST_ROW, MOST_ROW);
  place.style.setProperty("--row", `${ROW}px`);
  const cursor = { row: -1, column: -1, from: null };
  const scroll = h("div", { class: "scroll" });
  const labels = h(
    "div",
    { class: "labels" },
    rows.map((row) => labelOf(row, { state, closed, go, none })),
  );
  const tall = rows.length * ROW;
  // A few rows take no more room than they need, and their axis stands right below them.
  scroll.style.maxHeight = `${tall + 2}px`;
  scroll.style.minHeight = `${Math.min(tall + 2, 180)}px`;
  place.style.maxHeight = `${tall + 2 + AXIS}px`;
  place.style.minHeight = `${Math.min(tall + 2, 180) + AXIS}px`;
  const room = () => Math.min(tall, Math.max(140, scroll.clientHeight || 400));
  let board = null;
  const paint = (pen, width, height) => {
    pen.clearRect(0, 0, width, height);
    pen.imageSmoothingEnabled = false;
    Object.assign(pen, { font: "12px system-ui, sans-serif", textBaseline: "middle" });
    const strange = ink("nonfinite"),
      from = Math.floor(scroll.scrollTop / ROW),
      to = Math.min(rows.length, from + Math.ceil(height / ROW) + 1);
    for (let row = from; row < to; row++) {
      const y = row * ROW - scroll.scrollTop;
      if (rows[row].idle) {
        pen.fillStyle = ink("warn");
        pen.fillText(NO_GRADIENT, 8, y + ROW / 2);
        pen.fillStyle = strange;
      }
      if (!members[row].length || isOpen(rows[row])) continue;
      pen.drawImage(off, 0, row, wide, 1, 0, y, width, ROW - 1);
      pen.fillStyle = strange;
      for (let c = 0; c < wide; c++) {
        if (!marked[row * wide + c]) continue;
        let end = c + 1;
        while (end < wide && marked[row * wide + end]) end++;
        const left = Math.floor((c / wide) * width);
        pen.fillRect(left, y, Math.max(2, Math.ceil((end / wide) * width) - left), ROW - 1);
        c = end;
      }
    }
    if (cursor.from !== null) {
      const [a, b] = [cursor.from, cursor.column].sort((p, q) => p - q);
      pen.fillStyle = ink("ink");
      pen.globalAlpha = 0.25;
      pen.fillRect((a / wide) * width, 0, ((b - a + 1) / wide) * width, height);
      pen.globalAlpha = 1;
    } else if (cursor.column >= 0) {
      pen.strokeStyle = ink("page");
      pen.lineWidth = 3;
      const box = () =>
        pen.strokeRect(
          (cursor.column / wide) * width,
          cursor.row * ROW - scroll.scrollTop,
          Math.max(3, width / wide),
          ROW - 1,
        );
      box();
      pen.strokeStyle = ink("ink");
      pen.lineWidth = 1.5;
      box();
    }
  };
  const stepsOf = (c) => {
    const a = answer.first + c * answer.stretch,
      b = Math.min(a + answer.stretch - 1, lastSeen);
    return a >= b ? `step ${count(a)}` : `steps ${count(a)} to ${count(b)}`;
  };
  const saidOf = (row, c) => {
    const k = row * wide + c,
      each = rows[row];
    if (each.idle) return [each.name ?? each.label, `${plural(each.idle.length, "weight")}: ${NO_GRADIENT}`];
    const v = found[k],
      typical = answer.stretch > 1 && stat === "l2" ? " (root mean square)" : "";
    return [
      each.group !== undefined ? `${each.group}: the largest of ${plural(members[row].length, "tensor")}` : each.name,
      stepsOf(c),
      Number.isNaN(v)
        ? marked[k]
          ? "nothing finite"
          : "not recorded"
        : `${STAT_NAMES[stat] || stat} ${show(v)}${typical}`,
      marked[k] ? `holds ${NOT_FINITE[marked[k]]}` : null,
    ];
  };
  const cell = (event) => {
    const box = board.getBoundingClientRect();
    return [
      clamp(Math.floor((event.clientY - box.top + scroll.scrollTop) / ROW), 0, rows.length - 1),
      clamp(Math.floor(((event.clientX - box.left) / box.width) * wide), 0, wide - 1),
    ];
  };
  const open = (row, c) => {
    const each = rows[row];
    if (each.idle) go({ page: "tensor", tensor: each.idle[0][0], kind: "weight", stat: undefined });
    else if (each.group !== undefined) go({ closed: toggled(closed, each.group, none) });
    else go({ page: "tensor", tensor: each.name, step: answer.first + c * answer.stretch });
  };
  board = canvas(
    10,
    paint,
    `heatmap of the ${STAT_NAMES[stat] || stat} of ${rows.length} rows over ${wide} columns; arrow keys move, Enter opens`,
  );
  board.tabIndex = 0;
  const size = () => {
    board.style.height = `${room()}px`;
    board.height = room();
    redraw();
  };
  const redraw = () => {
    const scaleBy = devicePixelRatio || 1,
      width = board.clientWidth,
      height = room();
    if (!width) return;
    board.width = width * scaleBy;
    board.height = height * scaleBy;
    const pen = board.getContext("2d");
    pen.setTransform(scaleBy, 0, 0, scaleBy, 0, 0);
    paint(pen, width, height);
  };
  board.again = redraw;
  board.addEventListener("mousemove", (event) => {
    [cursor.row, cursor.column] = cell(event);
    redraw();
    shared.move(answer.first + cursor.column * answer.stretch);
    tell(event, ...saidOf(cursor.row, cursor.column));
  });
  board.addEventListener("mouseleave", () => {
    if (cursor.from === null) {
      cursor.row = cursor.column = -1;
      redraw();
    }
    hush();
  });
  board.addEventListener("mousedown", (event) => {
    event.preventDefault();
    board.focus({ preventScroll: true });
    cursor.pressed = event.clientX;
    [cursor.row, cursor.column] = cell(event);
    cursor.start = cursor.column;
  });
  board.addEventListener("mousemove", (event) => {
    if (cursor.pressed !== undefined && Math.abs(event.clientX - cursor.pressed) > 5) cursor.from = cursor.start;
  });
  board.addEventListener("mouseup", (event) => {
    const dragged = cursor.from !== null,
      [a, b] = [cursor.start, cursor.column].sort((p, q) => p - q);
    cursor.from = null;
    delete cursor.pressed;
    hush();
    if (!dragged) return open(...cell(event));
    go({ first: answer.first + a * answer.stretch, last: answer.first + (b + 1) * answer.stretch - 1 });
  });
  const said = h("span", { class: "said", role: "status" });
  board.addEventListener("keydown", (event) => {
    const moves = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      PageUp: [-20, 0],
      PageDown: [20, 0],
    };
    if (event.key in moves) {
      event.preventDefault();
      const [dr, dc] = moves[event.key],
        far = event.shiftKey ? 10 : 1;
      cursor.row = clamp((cursor.row < 0 ? 0 : cursor.row) + dr, 0, rows.length - 1);
      cursor.column = clamp((cursor.column < 0 ? 0 : cursor.column) + dc * far, 0, wide - 1);
      const top = cursor.row * ROW;
      if (top < scroll.scrollTop) scroll.scrollTop = top;
      if (top + ROW > scroll.scrollTop + room()) scroll.scrollTop = top + ROW - room();
      fill(said, saidOf(cursor.row, cursor.column).filter(Boolean).join(", "));
      redraw();
    } else if (event.key === "Enter" && cursor.row >= 0) open(cursor.row, cursor.column);
    else if (event.key === "Escape" && (state.first !== undefined || state.last !== undefined))
      go({ first: undefined, last: undefined });
  });
  const shared = newCursor(null);
  const name = lossOf(marks);
  const line = name && { name, color: "line3", ...uneven(marks.lines[name].steps, unpacked(marks.lines[name].values)) };
  const axis = canvas(
    22,
    (pen, width) => {
      pen.clearRect(0, 0, width, 22);
      timeAxis(pen, width, 22, answer.first, lastSeen, { left: 0, right: 0, top: 0, bottom: 20 });
    },
    "steps",
  );
  board.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const c = cell(event)[1],
        zoom = event.deltaY < 0 ? 0.5 : 2,
        width = Math.max(8, wide * zoom);
      const a = Math.round(c - (c / wide) * width),
        b = Math.round(a + width);
      go({
        first: Math.max(info.steps.first, answer.first + a * answer.stretch),
        last: Math.min(info.steps.last, answer.first + b * answer.stretch),
      });
    },
    { passive: false },
  );
  scroll.addEventListener("scroll", redraw);
  scroll.append(labels, h("div", { class: "cells" }, board));
  fill(place, scroll, h("div", { class: "axis" }, h("span", { class: "soft" }, "step"), axis));
  new ResizeObserver(size).observe(scroll);
  requestAnimationFrame(size);
  const loss =
    line &&
    chart({
      height: 96,
      edge: { left: labels.clientWidth || GUTTER, right: 0, top: 8, bottom: 20 },
      first: answer.first,
      last: lastSeen,
      lines: [line],
      nonfinite: spoilt(line),
      label: `${name} over the steps`,
      cursor: shared,
    });
  // Where something first is not finite: the findings name the tensor.
  let spoiltAt = wide;
  for (let c = 0; c < wide && spoiltAt === wide; c++)
    for (let row = 0; row < rows.length; row++) if (marked[row * wide + c]) spoiltAt = c;
  const shown = rows.reduce((n, r) => n + (r.idle ? 0 : r.group === undefined ? 1 : r.closed ? r.tensors.length : 0), 0);
  const typical = answer.stretch > 1 ? `a column is ${count(answer.stretch)} steps` : "a column is a step";
  fill(
    below,
    h(
      "div",
      { class: "notes" },
      legend(own ? { ...whole, own } : whole, STAT_NAMES[stat] || stat, show),
      h("span", { class: "soft" }, `${plural(shown, "tensor")}, ${typical}`),
      isLocal(kind, info) ? h("span", { class: "soft" }, LOCAL) : null,
      spoiltAt < wide
        ? link({ page: "findings", run: state.run }, `first NaN or ∞: ${stepsOf(spoiltAt)}`, { class: "first-bad" })
        : null,
      said,
    ),
    loss ? strip(name, loss, "guttered") : null,
  );
}

const toggled = (closed, name, none) => {
  const next = new Set(closed);
  next.has(name) ? next.delete(name) : next.add(name);
  return [...next].map(encodeURIComponent).join(",") || none;
};
// A name whose end is seen where its middle has no room.
const inTwo = (name) => {
  const all = [...harmless(name)],
    end = all.length > 20 ? all.length - 9 : all.length;
  return [h("span", {}, all.slice(0, end).join("")), h("span", {}, all.slice(end).join(""))];
};
function labelOf(row, given) {
  const label = labelled(row, given);
  label.style.setProperty("--depth", Math.min(row.depth, 7));
  return label;
}
function labelled(row, { state, closed, go, none }) {
  if (row.group !== undefined)
    return h(
      "button",
      {
        class: "row group",
        "aria-expanded": String(!row.closed),
        title: `${row.group}  ${row.type}`,
        onclick: () => go({ closed: toggled(closed, row.group, none) }),
      },
      h("i", { "aria-hidden": "true" }, row.closed ? "▸" : "▾"),
      h("b", {}, inTwo(row.label)),
      h("span", { class: "soft" }, row.closed ? ` ${plural(row.tensors.length, "tensor")}` : ` ${row.type}`),
    );
  if (row.idle)
    return link(
      { page: "tensor", run: state.run, rank: state.rank, tensor: row.idle[0][0], kind: "weight" },
      [
        h(row.shape ? "span" : "b", { class: "name" }, inTwo(row.label)),
        row.shape ? null : h("span", { class: "soft" }, ` ${row.type}`),
      ],
      { class: "row", title: `${row.name}: ${NO_GRADIENT}` },
    );
  return link(
    { ...state, page: "tensor", tensor: row.name, kind: row.kind },
    h("span", { class: "name" }, inTwo(row.label)),
    {
      class: "row",
      title: `${row.name}  ${shaped(row.shape)}`,
    },
  );
}
