// Lines over the steps, the time or the epochs: several with one axis, a band between two of them, marks where something
// was not finite. All charts of a page share their places, and a cursor that moves through all of them.
const EDGE = { left: 64, right: 14, top: 8, bottom: 20 },
  BAR = 7; // the height of a bar of NaN and the gap below

const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
function timeTicks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1);
  if (rough < 1) return ticks(low, high, most);
  for (let k = SPANS.findIndex((s) => s >= rough); k >= 0; k--) {
    const found = [];
    for (let n = Math.ceil(low / SPANS[k]); n * SPANS[k] <= high; n++) found.push(n * SPANS[k]);
    if (found.length > 1) return found;
  }
  return ticks(low / 86400, high / 86400, most).map((v) => v * 86400);
}
function duration(v, digits) {
  for (const [size, unit] of [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ])
    if (Math.abs(v) >= size * (unit === "s" ? 1 : 2)) return `${num(v / size, digits)} ${unit}`;
  return v === 0 ? "0 s" : `${num(v * 1e3, digits)} ms`;
}
// What lines run over: where ticks are, and how a place is written.
const AXES = {
  step: {
    name: "step",
    ticks: (low, high, most) => ticks(low, high, most).filter(Number.isInteger),
    text: count,
    told: (v) => `step ${count(v)}`,
    rounded: Math.round,
  },
  time: {
    name: "time",
    ticks: timeTicks,
    text: duration,
    told: (v) => `after ${duration(v)}`,
    rounded: (v) => v,
  },
  epoch: { name: "epoch", ticks, text: num, told: (v) => `epoch ${num(v, 4)}`, rounded: (v) => v },
};

function timeAxis(pen, width, height, first, last, edge = EDGE, axis = AXES.step) {
  const x = (at) => edge.left + ((at - first) / (last - first || 1)) * (width - edge.left - edge.right);
  pen.font = FONT;
  pen.fillStyle = ink("soft");
  pen.textAlign = "center";
  pen.textBaseline = "top";
  const wide = pen.measureText(axis.text(last)).width + 36;
  for (const at of axis.ticks(first, last, Math.max(2, (width - edge.left - edge.right) / wide))) {
    const text = axis.text(at),
      half = pen.measureText(text).width / 2;
    pen.fillText(text, clamp(x(at), half, width - half), height - edge.bottom + 5);
  }
  return x;
}

// A moving average that forgets by this share at each point, without the pull towards zero at its beginning.
function smoothed(values, share) {
  if (!share) return values;
  const found = new Float64Array(values.length);
  let sum = 0,
    weight = 0;
  for (let k = 0; k < values.length; k++) {
    if (!Number.isFinite(values[k])) {
      found[k] = values[k];
      continue;
    }
    sum = sum * share + values[k] * (1 - share);
    weight = weight * share + (1 - share);
    found[k] = sum / weight;
  }
  return found;
}

// From where to where values are, but for the outermost hundredth on each side.
const OUTERMOST = 0.01;
function withoutOutliers(values) {
  const sorted = Float64Array.from(values).sort(),
    out = Math.ceil(OUTERMOST * sorted.length);
  return sorted.length > 2 * out + 1 ? [sorted[out], sorted[sorted.length - 1 - out]] : [sorted[0], sorted.at(-1)];
}

// Unless a reader chooses, a scale is logarithmic where an even one would press a line flat: where the middle of its values is
// below a twentieth of the highest of all. Of a loss that falls as it should it is some tenth of the first.
const FLATTENED = 20;
function isFlattened(...lines) {
  const found = lines.map((values) => Float64Array.from(values.filter((v) => v > 0 && v < Infinity)).sort()),
    top = Math.max(...found.map((values) => values.at(-1) ?? 0));
  return (
    found.some((values) => top > FLATTENED * values[values.length >> 1]) &&
    !lines.some((values) => values.some((v) => v < 0))
  );
}

function chart({
  height = 170,
  edge = EDGE,
  first,
  last,
  lines,
  band,
  inner,
  nonfinite,
  log = null, // by `isFlattened`
  show = num,
  label,
  cursor,
  pick,
  zoom,
  smooth = 0,
  calm = false,
  axis = AXES.step,
}) {
  edge = { ...edge };
  let x = () => 0,
    y = () => 0;
  const least = edge.left,
    drawn = lines.map((line) => ({ ...line, raw: line.values, values: smoothed(line.values, smooth) }));
  const seen = (v) => Number.isFinite(v);
  let bottom = Infinity,
    top = -Infinity;
  const inView = [...drawn, ...(band ? [band.low, band.high] : [])].map(({ raw, values, at }) =>
      [...new Set([raw ?? values, values])].flatMap((each) =>
        [...each].filter((v, k) => seen(v) && at(k) <= last && (k + 1 === each.length || at(k + 1) >= first)),
      ),
    ),
    finite = inView.flat();
  log = log ?? isFlattened(...inView);
  log &&= finite.some((v) => v > 0);
  const all = log ? finite.filter((v) => v > 0) : finite;
  for (const v of all) {
    if (v < bottom) bottom = v;
    if (v > top) top = v;
  }
  if (calm && all.length) [bottom, top] = withoutOutliers(all);
  const nothing = bottom > top;
  if (log && lines.every(({ values }) => values.length === 1)) {
    const margin = (top / bottom) ** 0.08; // points stand clear of the frame
    [bottom, top] = [bottom / margin, top * margin];
  }
  if (!nothing && isFlat(bottom, top)) {
    bottom = log ? bottom / 2 : bottom - (Math.abs(bottom) || 1) / 2;
    top = log ? Math.min(top * 2, Number.MAX_VALUE) : top + (Math.abs(top) || 1) / 2;
  }
  const isOut = (v) => v > top || (v < bottom && !(log && v <= 0)),
    out = finite.filter(isOut).length,
    said = [
      log ? "log scale" : null,
      log && all.length < finite.length ? `${finite.some((v) => v < 0) ? "0 and less" : "0"} at the bottom edge` : null,
      out ? `${plural(out, "outlier")} out of view` : null,
    ].filter(Boolean);
  const board = canvas(height, draw, label);
  // Above the frame, a row for each line that is not finite somewhere: no bar lies on another line.
  const spoilt_ = (nonfinite ? [nonfinite].flat() : [])
    .map((each, k) => ({ ...each, color: lines.length > 1 ? lines[k]?.color : null }))
    .filter(({ values }) => values.some(Boolean));
  const bars = edge.top;
  edge.top += Math.max(0, spoilt_.length * BAR - 1);

  function draw(pen, width) {
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    const room = height - edge.top - edge.bottom,
      found = log ? logTicks : ticks,
      most = room / (log ? 22 : 24),
      marks = nothing ? [] : show === bytes ? byteTicks(bottom, top, most, found) : found(bottom, top, most);
    let digits = 3; // as many as tell one from the next
    while (digits < 9 && new Set(marks.map((v) => show(v, digits))).size < marks.length) digits++;
    edge.left = Math.max(least, ...marks.map((v) => pen.measureText(show(v, digits)).width + 12));
    x = timeAxis(pen, width, height, first, last, edge, axis);
    // Halves, as the whole range may be more than a number can hold.
    const place = log
      ? (v) => (v > 0 ? (Math.log(v) - Math.log(bottom)) / (Math.log(top) - Math.log(bottom)) : 0)
      : (v) => (v / 2 - bottom / 2) / (top / 2 - bottom / 2);
    y = (v) => edge.top + room * (1 - place(v));
    if (nothing) {
      pen.textAlign = "center";
      pen.fillText("no finite number", (edge.left + width - edge.right) / 2, height / 2);
      return;
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const v of marks) {
      pen.strokeStyle = ink("grid");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(edge.left, Math.round(y(v)) + 0.5);
      pen.lineTo(width - edge.right, Math.round(y(v)) + 0.5);
      pen.stroke();
      pen.fillStyle = ink("soft");
      pen.fillText(show(v, digits), edge.left - 8, y(v));
    }
    pen.save();
    pen.beginPath();
    pen.rect(edge.left - 3, edge.top - 4, width - edge.left - edge.right + 6, room + 8);
    pen.clip();
    if (band) area(pen, band, 0.18);
    if (inner) area(pen, inner, 0.38);
    for (const line of drawn) {
      if (line.raw !== line.values) {
        pen.globalAlpha = 0.25;
        stroke(pen, { ...line, values: line.raw });
        pen.globalAlpha = 1;
      }
      stroke(pen, line);
      if (out)
        line.raw.forEach((v, k) => {
          if (!isOut(v)) return;
          const up = v > top ? 1 : -1,
            edge_ = up > 0 ? edge.top : edge.top + room;
          pen.beginPath();
          pen.moveTo(x(line.at(k)), edge_ - 4 * up);
          pen.lineTo(x(line.at(k)) - 4, edge_ + 3 * up);
          pen.lineTo(x(line.at(k)) + 4, edge_ + 3 * up);
          pen.fill();
        });
    }
    pen.restore();
    spoilt_.forEach(({ values, at, color }, row) => {
      let begun = false;
      for (let k = 0; k < values.length; k++) {
        if (!values[k]) continue;
        let end = k + 1;
        while (end < values.length && values[end]) end++;
        const left = Math.max(x(at(k)) - 1, edge.left),
          right = Math.min(x(at(end)), width - edge.right);
        k = end;
        if (right < edge.left || left > width - edge.right) continue;
        pen.fillStyle = ink("nonfinite");
        pen.fillRect(left, bars + row * BAR, Math.max(2, right - left), 4);
        if (color && !begun) {
          pen.fillStyle = ink(color);
          pen.fillRect(left - 11, bars + row * BAR - 1, 8, 6);
        }
        begun = true;
      }
    });
    if (board.dragged) {
      const [from, to] = board.dragged.map(x).sort((a, b) => a - b);
      pen.fillStyle = ink("ink");
      pen.globalAlpha = 0.12;
      pen.fillRect(from, edge.top, to - from, room);
      pen.globalAlpha = 1;
    }
    if (cursor.step !== null && cursor.step >= first && cursor.step <= last) {
      pen.strokeStyle = ink("ink");
      pen.globalAlpha = 0.55;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(Math.round(x(cursor.step)) + 0.5, edge.top);
      pen.lineTo(Math.round(x(cursor.step)) + 0.5, height - edge.bottom);
      pen.stroke();
      pen.globalAlpha = 1;
      for (const line of drawn) {
        const k = nearest(line, cursor.step);
        if (k < 0 || !seen(line.values[k]) || line.at(k) < first) continue;
        pen.fillStyle = ink(line.color);
        pen.fillRect(x(line.at(k)) - 2.5, y(line.values[k]) - 2.5, 5, 5);
      }
    }
  }
  function area(pen, { low: under, high: over, color: name }, alpha) {
    pen.fillStyle = ink(name);
    pen.globalAlpha = alpha;
    const n = over.values.length;
    for (let from = 0; from < n; from++) {
      if (!seen(over.values[from]) || !seen(under.values[from])) continue;
      let to = from;
      while (to + 1 < n && seen(over.values[to + 1]) && seen(under.values[to + 1])) to++;
      pen.beginPath();
      for (let k = from; k <= to; k++) pen.lineTo(x(over.at(k)), y(over.values[k]));
      for (let k = to; k >= from; k--) pen.lineTo(x(under.at(k)), y(under.values[k]));
      pen.closePath();
      pen.fill();
      from = to;
    }
    pen.globalAlpha = 1;
  }
  function stroke(pen, { values, at, color: name, dash = [], dot = values.length > 1 ? 3 : 6 }) {
    pen.strokeStyle = pen.fillStyle = ink(name);
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    pen.setLineDash(dash);
    pen.beginPath();
    let joined = false;
    for (let k = 0; k < values.length; k++) {
      if (!seen(values[k])) {
        joined = false;
        continue;
      }
      const alone = !joined && !(k + 1 < values.length && seen(values[k + 1]));
      if (alone) pen.fillRect(x(at(k)) - dot / 2, y(values[k]) - dot / 2, dot, dot);
      joined ? pen.lineTo(x(at(k)), y(values[k])) : pen.moveTo(x(at(k)), y(values[k]));
      joined = true;
    }
    pen.stroke();
    pen.setLineDash([]);
  }
  const placeAt = (event) => {
    const box = board.getBoundingClientRect(),
      share = (event.clientX - box.left - edge.left) / (box.width - edge.left - edge.right);
    return axis.rounded(clamp(first + share * (last - first), first, last));
  };
  let pressed = null;
  board.addEventListener("mousemove", (event) => {
    cursor.move(placeAt(event));
    if (pressed !== null && zoom && Math.abs(event.clientX - pressed.x) > 4) {
      board.dragged = [pressed.at, cursor.step];
      hush();
      board.again();
      return;
    }
    const told = drawn.map((line) => {
      const k = nearest(line, cursor.step);
      if (k < 0) return null;
      const raw = line.raw === line.values ? "" : ` (${show(line.raw[k])})`;
      return [drawn.length > 1 ? dotOf(line) : null, `${line.told ?? line.name}: ${show(line.values[k])}${raw}`];
    });
    if (band) {
      const k = nearest(band.low, cursor.step);
      if (k >= 0) told.push(`from ${show(band.low.values[k])} to ${show(band.high.values[k])}`);
    }
    tell(event, axis.told(cursor.step), ...told.slice(0, 14), told.length > 14 ? `and ${told.length - 14} more` : null);
  });
  board.addEventListener("mousedown", (event) => {
    if (event.button) return;
    event.preventDefault();
    pressed = { x: event.clientX, at: placeAt(event) };
    // The pointer may be let go anywhere.
    addEventListener(
      "mouseup",
      (up) => {
        const dragged = board.dragged,
          inside = pressed !== null && board.contains(up.target);
        board.dragged = pressed = null;
        if (dragged && dragged[0] !== dragged[1]) zoom(...dragged.sort((a, b) => a - b));
        else if (inside && !dragged && pick) pick(placeAt(up));
        else board.again();
      },
      { once: true },
    );
  });
  if (zoom) board.addEventListener("dblclick", () => zoom(null));
  board.addEventListener("mouseleave", () => {
    hush();
    if (pressed === null) cursor.move(cursor.fixed);
  });
  cursor.boards.push(board);
  board.said = said;
  board.lines = lines;
  board.axis = axis;
  board.drawn = draw;
  board.tall = height;
  return board;
}

// The last point of a line that is not after a place; none where the line has ended before, as that of a shorter run.
function nearest(line, step) {
  let low = 0,
    high = line.values.length - 1;
  if (high < 0 || line.at(0) > step) return -1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    line.at(mid) <= step ? (low = mid) : (high = mid - 1);
  }
  const end = line.values.length - 1,
    gap = end ? line.at(end) - line.at(end - 1) : 0;
  return low === end && step > line.at(end) + gap ? -1 : low;
}
function newCursor(step) {
  const cursor = {
    step,
    fixed: step,
    boards: [],
    move(to) {
      if (to === cursor.step) return;
      cursor.step = to;
      cancelAnimationFrame(cursor.frame);
      cursor.frame = requestAnimationFrame(() => {
        for (const board of cursor.boards) board.again();
      });
    },
  };
  return cursor;
}
// A line of equal columns, as answers hold them, and one of steps of its own.
const even = (answer, values) => ({ values, at: (k) => answer.first + k * answer.stretch });
const uneven = (steps, values) => ({ values, at: (k) => (k < steps.length ? steps[k] : steps[steps.length - 1]) });

// Where the numbers of a line are not finite, to be marked as such.
const spoilt = ({ values, at }) => ({ values: Array.from(values, (v) => (Number.isFinite(v) ? 0 : 1)), at });

// The loss that stands beside other pictures; where none is known, what was tagged first.
const lossOf = (marks) => (marks.losses || [])[0] ?? Object.keys(marks.lines)[0];

const dotOf = (line) => {
  const dot = h("i", {});
  dot.style.background = line.dash?.length
    ? `repeating-linear-gradient(90deg, var(--${line.color}) 0 4px, transparent 4px 6px)`
    : `var(--${line.color})`;
  return dot;
};
const names = (lines, beside = () => null) =>
  h(
    "div",
    { class: "names" },
    lines.map((line) => h("span", {}, dotOf(line), line.name, beside(line))),
  );

// A chart below a picture, with its name in the gutter.
const strip = (name, board, kind = "") =>
  h("div", { class: `marks ${kind}` }, h("h3", { title: name }, [name, ...board.said].join(", ")), board);

const panel = (title, board, legend_, ...notes) =>
  h(
    "figure",
    { class: "panel" },
    h(
      "figcaption",
      {},
      h("h3", { title }, title),
      legend_,
      [...new Set([...notes, ...(board.said || [])])].filter(Boolean).map((text) => h("span", { class: "soft" }, text)),
      board.drawn ? exporting(title, board) : null,
    ),
    board,
  );
