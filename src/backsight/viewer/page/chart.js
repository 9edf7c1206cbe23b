// Lines over the steps: several with one axis, a band between two of them, marks where something was not finite.
// All charts of a page share their steps, and a cursor that moves through all of them.
const EDGE = { left: 64, right: 14, top: 8, bottom: 20 };

function timeAxis(pen, width, height, first, last, edge = EDGE) {
  const x = (step) => edge.left + ((step - first) / Math.max(last - first, 1)) * (width - edge.left - edge.right);
  pen.font = FONT;
  pen.fillStyle = ink("soft");
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const step of ticks(first, last, Math.max(2, (width - edge.left) / 110)))
    if (Number.isInteger(step)) {
      const text = count(step),
        half = pen.measureText(text).width / 2;
      pen.fillText(text, clamp(x(step), half, width - half), height - edge.bottom + 5);
    }
  return x;
}

function chart({
  height = 170,
  edge = EDGE,
  first,
  last,
  lines,
  band,
  nonfinite,
  log = false,
  show = num,
  label,
  cursor,
  pick,
}) {
  let x = () => 0,
    y = () => 0;
  const board = canvas(height, draw, label);
  const low = [],
    high = [];
  for (const line of [...lines, ...(band ? [band.low, band.high] : [])]) {
    for (const v of line.values)
      if (Number.isFinite(v) && (!log || v > 0)) {
        low.push(v);
        high.push(v);
        break;
      }
    for (const v of line.values) {
      if (!Number.isFinite(v) || (log && v <= 0)) continue;
      if (v < low[low.length - 1]) low[low.length - 1] = v;
      if (v > high[high.length - 1]) high[high.length - 1] = v;
    }
  }
  let bottom = Math.min(...low),
    top = Math.max(...high);
  const nothing = !low.length;
  if (bottom === top) {
    bottom = log ? bottom / 2 : bottom - (Math.abs(bottom) || 1) / 2;
    top = log ? top * 2 : top + (Math.abs(top) || 1) / 2;
  }

  function draw(pen, width) {
    pen.clearRect(0, 0, width, height);
    x = timeAxis(pen, width, height, first, last, edge);
    const room = height - edge.top - edge.bottom;
    const place = log ? (v) => Math.log(v / bottom) / Math.log(top / bottom) : (v) => (v - bottom) / (top - bottom);
    y = (v) => edge.top + room * (1 - place(v));
    if (nothing) {
      pen.textAlign = "left";
      pen.fillText("no finite number", edge.left, height / 2);
      return;
    }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const v of log ? logTicks(bottom, top, room / 26) : ticks(bottom, top, room / 24)) {
      pen.strokeStyle = ink("grid");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(edge.left, Math.round(y(v)) + 0.5);
      pen.lineTo(width - edge.right, Math.round(y(v)) + 0.5);
      pen.stroke();
      pen.fillStyle = ink("soft");
      pen.fillText(show(v), edge.left - 8, y(v));
    }
    pen.save();
    pen.beginPath();
    pen.rect(edge.left - 2, 0, width - edge.left - edge.right + 4, height);
    pen.clip();
    if (band) area(pen, band);
    for (const line of lines) stroke(pen, line);
    pen.restore();
    if (nonfinite) {
      pen.fillStyle = ink("nonfinite");
      for (let k = 0; k < nonfinite.values.length; k++) {
        if (!nonfinite.values[k]) continue;
        let end = k + 1;
        while (end < nonfinite.values.length && nonfinite.values[end]) end++;
        pen.fillRect(
          x(nonfinite.at(k)) - 1,
          edge.top,
          Math.max(2, Math.min(x(nonfinite.at(end)), width - edge.right) - x(nonfinite.at(k))),
          4,
        );
        k = end;
      }
    }
    if (cursor.step !== null && cursor.step >= first && cursor.step <= last) {
      pen.strokeStyle = ink("ink");
      pen.globalAlpha = 0.55;
      pen.beginPath();
      pen.moveTo(Math.round(x(cursor.step)) + 0.5, edge.top);
      pen.lineTo(Math.round(x(cursor.step)) + 0.5, height - edge.bottom);
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }
  const seen = (v) => Number.isFinite(v) && (!log || v > 0);
  function area(pen, { low: under, high: over, color: name }) {
    pen.fillStyle = ink(name);
    pen.globalAlpha = 0.2;
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
  function stroke(pen, { values, at, color: name }) {
    pen.strokeStyle = pen.fillStyle = ink(name);
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    pen.beginPath();
    let drawn = false;
    for (let k = 0; k < values.length; k++) {
      if (!seen(values[k])) {
        drawn = false;
        continue;
      }
      const alone = !drawn && !(k + 1 < values.length && seen(values[k + 1]));
      if (alone) pen.fillRect(x(at(k)) - 1.5, y(values[k]) - 1.5, 3, 3);
      drawn ? pen.lineTo(x(at(k)), y(values[k])) : pen.moveTo(x(at(k)), y(values[k]));
      drawn = true;
    }
    pen.stroke();
  }
  const stepAt = (event) => {
    const box = board.getBoundingClientRect(),
      share = (event.clientX - box.left - edge.left) / (box.width - edge.left - edge.right);
    return Math.round(clamp(first + share * (last - first), first, last));
  };
  board.addEventListener("mousemove", (event) => {
    cursor.move(stepAt(event));
    const told = lines.map((line) => {
      const k = nearest(line, cursor.step);
      return k < 0 ? null : `${line.name}: ${show(line.values[k])}`;
    });
    if (band) {
      const k = nearest(band.low, cursor.step);
      if (k >= 0) told.push(`from ${show(band.low.values[k])} to ${show(band.high.values[k])}`);
    }
    tell(event, `step ${count(cursor.step)}`, ...told);
  });
  board.addEventListener("mouseleave", () => {
    hush();
    cursor.move(cursor.fixed);
  });
  board.addEventListener("click", (event) => pick && pick(stepAt(event)));
  cursor.boards.push(board);
  return board;
}

// The last point of a line that is not after a step.
function nearest(line, step) {
  let low = 0,
    high = line.values.length - 1;
  if (high < 0 || line.at(0) > step) return -1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    line.at(mid) <= step ? (low = mid) : (high = mid - 1);
  }
  return low;
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

const names = (lines) =>
  h(
    "div",
    { class: "names" },
    lines.map((line) => {
      const dot = h("i", {});
      dot.style.background = `var(--${line.color})`;
      return h("span", {}, dot, line.name);
    }),
  );
