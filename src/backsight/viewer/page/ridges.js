// The shares of a tensor's numbers as a curve for each of some steps, one behind the other: below zero on the left,
// above zero on the right, exact zeros between them. By magnitude alone where a recording has no signs.
function ridges(answer, { tensor, pick, finite }) {
  const { columns, low, most, rest } = answer.ridges,
    sides = ["positive", "negative"].filter((side) => answer.ridges[side]),
    signed = sides.length > 1,
    of = Object.fromEntries(sides.map((side) => [side, unpacked(answer.ridges[side])])),
    some = (side) => of[side]?.some((v) => v > 0),
    bins = answer.ridges.positive.shape[1],
    shares = Object.fromEntries(sides.map((side) => [side, Float32Array.from(of[side], (v) => most * (v / 255) ** 2)])),
    n = columns.length;
  // What stands where, from left to right: a side and a bin, or the zeros.
  const upward = Array.from({ length: bins }, (_, b) => ({ side: "positive", bin: b })),
    downward = upward.map(({ bin }) => ({ side: "negative", bin })).reverse();
  // A side on which nothing ever is, as below the outputs of a ReLU, gets no room.
  const left = some("negative") ? downward : [],
    right = some("positive") || !left.length ? upward : [],
    slots = signed ? [...left, { side: "zero" }, ...right] : upward,
    middle = signed ? left.length : -1,
    top = 46,
    bottom = 24;
  const shareAt = (slot, k) => (slot.side === "zero" ? rest[k] : shares[slot.side][k * bins + slot.bin]),
    sizeOf = ({ side, bin }) => (side === "negative" ? -1 : 1) * 2 ** (low + bin + answer.lowest),
    places = (height) => (height - top - bottom) / Math.max(n - 1, 1),
    ageColor = (k) => color("ramp", 0.15 + (0.7 * k) / Math.max(n - 1, 1));
  const board = canvas(
    280,
    (pen, width, height) => {
      pen.clearRect(0, 0, width, height);
      const wide = (width - EDGE.left - EDGE.right) / slots.length,
        x = (at) => EDGE.left + (at + 0.5) * wide,
        each = places(height);
      pen.textBaseline = "middle";
      pen.lineJoin = "round";
      for (let k = 0; k < n; k++) {
        const y = top + k * each,
          runs = signed ? [left, right] : [slots];
        runs.forEach((run, at) => {
          if (!run.length) return;
          const from = at ? middle + 1 : 0;
          const curve = () => {
            pen.beginPath();
            run.forEach((slot, b) => pen.lineTo(x(from + b), y - (shareAt(slot, k) / most) * top * 0.95));
          };
          curve();
          pen.lineTo(x(from + run.length - 1), y);
          pen.lineTo(x(from), y);
          pen.closePath();
          pen.fillStyle = ink("page");
          pen.fill();
          pen.fillStyle = ageColor(k);
          pen.globalAlpha = 0.55;
          pen.fill();
          pen.globalAlpha = 1;
          curve();
          pen.strokeStyle = ink("ink");
          pen.lineWidth = 0.8;
          pen.globalAlpha = 0.6;
          pen.stroke();
          pen.globalAlpha = 1;
        });
        if (signed && rest[k] > 0) {
          pen.fillStyle = ink("soft");
          pen.fillRect(x(middle) - wide * 0.3, y - rest[k] * top * 0.95, wide * 0.6, Math.max(1, rest[k] * top * 0.95));
        }
        if (k % Math.ceil(n / 6) === 0 || k === n - 1) {
          pen.fillStyle = ink("soft");
          pen.textAlign = "right";
          pen.fillText(count(answer.steps[columns[k]]), EDGE.left - 8, y);
        }
      }
      if (signed) {
        pen.strokeStyle = ink("soft");
        pen.lineWidth = 1;
        pen.setLineDash([2, 3]);
        pen.beginPath();
        pen.moveTo(x(middle), 4);
        pen.lineTo(x(middle), height - bottom);
        pen.stroke();
        pen.setLineDash([]);
      }
      pen.fillStyle = ink("soft");
      pen.textAlign = "center";
      const stride = Math.max(
        1,
        Math.ceil(slots.length / Math.max(2, Math.floor((width - EDGE.left - EDGE.right) / 76))),
      );
      slots.forEach((slot, at) => {
        // The same magnitudes on both sides, and none so near to the zero that the two run into each other.
        const away = signed ? Math.abs(at - middle) : at;
        if (slot.side === "zero") pen.fillText("0", x(at), height - 10);
        else if (away % stride === 0) pen.fillText(num(sizeOf(slot), 2), x(at), height - 10);
      });
    },
    signed
      ? `ridges of ${tensor}, negative values on the left, positive ones on the right, the newest in front; click for a step`
      : `ridges of the magnitudes of ${tensor}, the newest in front; click for a step`,
  );
  const rowAt = (event) => {
    const box = board.getBoundingClientRect();
    return clamp(Math.round((event.clientY - box.top - top) / places(box.height)), 0, n - 1);
  };
  board.addEventListener("mousemove", (event) => {
    const box = board.getBoundingClientRect(),
      share = (event.clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right),
      slot = slots[clamp(Math.floor(share * slots.length), 0, slots.length - 1)],
      k = rowAt(event),
      ends = slot.side === "zero" ? null : [sizeOf(slot), 2 * sizeOf(slot)].sort((a, b) => a - b);
    tell(
      event,
      `step ${count(answer.steps[columns[k]])}`,
      `${percent(shareAt(slot, k))} of the elements`,
      ends
        ? `from ${num(ends[0])} to ${num(ends[1])}${signed ? "" : " in magnitude"}`
        : finite
          ? "exactly zero"
          : "exactly zero, NaN or infinite",
    );
  });
  board.addEventListener("mouseleave", hush);
  board.addEventListener("click", (event) => pick(answer.steps[columns[rowAt(event)]]));
  const only = signed && (!left.length ? "negative" : !right.length ? "positive" : null),
    zeros = rest.some((v) => v > 0);
  return [board, ridgeLegend(answer.steps, columns, { most, signed, only, zeros, finite, ageColor })];
}

function ridgeLegend(steps, columns, { most, signed, only, zeros, finite, ageColor }) {
  const bar = h("span", { class: "ramp" }),
    last = columns.length - 1;
  bar.style.background = `linear-gradient(90deg,${Array.from({ length: 13 }, (_, k) => ageColor((k / 12) * last)).join(",")})`;
  return h(
    "div",
    { class: "legend" },
    h("span", { class: "soft" }, "step"),
    h("span", {}, count(steps[columns[0]])),
    bar,
    h("span", {}, count(steps[columns[last]])),
    h("span", { class: "soft" }, `highest: ${percent(most)} of the elements`),
    signed && zeros
      ? h("span", { class: "soft" }, `gray bar: exactly zero${finite ? "" : ", NaN or ∞"}, full height is 100 %`)
      : null,
    only ? h("span", { class: "soft" }, `no ${only} values`) : null,
    signed ? null : h("span", { class: "soft" }, "by magnitude: this run was recorded without signs"),
  );
}
