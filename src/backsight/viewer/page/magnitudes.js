// How the magnitudes of a tensor are spread over the steps: as a picture, or as ridges, the newest in front.
const MOST_RIDGES = 40;

async function magnitudes(place, { state, first, last, cursor, pick, app }) {
  const given = {
    tensor: state.tensor,
    kind: state.kind,
    first: state.first,
    last: state.last,
    columns: 240,
    rank: state.rank,
  };
  try {
    if (!holds("histograms", given)) {
      fill(place, h("p", { class: "soft" }, "The magnitudes are in the run: open it with backsight view."));
      return;
    }
    const answer = await ask(state.run, "histograms", given, app.signal),
      shares = Float32Array.from(unpacked(answer.shares), (v) => answer.most * (v / 255) ** 2),
      n = answer.steps.length,
      bins = answer.shares.shape[1];
    if (!n) {
      fill(place, h("p", { class: "soft" }, "This run was recorded without histograms."));
      return;
    }
    let low = bins,
      high = -1;
    for (let k = 0; k < shares.length; k++)
      if (shares[k] > 0) {
        low = Math.min(low, k % bins);
        high = Math.max(high, k % bins);
      }
    if (high < 0) {
      fill(place, h("p", { class: "soft" }, "Every element is zero or not finite."));
      return;
    }
    low = Math.max(0, low - 1);
    high = Math.min(bins - 1, high + 1);
    if (state.ridges) {
      // What hardly an element has would leave no room for the rest.
      const seen_ = Array.from({ length: bins }, (_, b) => b).filter((b) => {
        for (let k = 0; k < n; k++) if (shares[k * bins + b] > answer.most / 100) return true;
        return false;
      });
      low = Math.max(0, seen_[0] - 1);
      high = Math.min(bins - 1, seen_[seen_.length - 1] + 1);
      fill(place, ridges(answer, shares, { low, high, bins, tensor: state.tensor, pick }));
      return;
    }
    const board = picture(answer, shares, { low, high, bins, first, last, cursor, tensor: state.tensor });
    const stepAt = (event) => {
      const box = board.getBoundingClientRect();
      return Math.round(
        clamp(
          first + ((event.clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right)) * (last - first),
          first,
          last,
        ),
      );
    };
    board.addEventListener("mousemove", (event) => {
      cursor.move(stepAt(event));
      const box = board.getBoundingClientRect(),
        b = clamp(
          high - Math.floor((event.clientY - box.top - EDGE.top) / ((190 - EDGE.top - EDGE.bottom) / (high - low + 1))),
          low,
          high,
        );
      let k = answer.steps.length - 1;
      while (k > 0 && answer.steps[k] > cursor.step) k--;
      tell(
        event,
        `step ${count(cursor.step)}`,
        `${percent(shares[k * bins + b])} of the elements`,
        `from ${num(2 ** (b + answer.lowest))} to ${num(2 ** (b + 1 + answer.lowest))} in magnitude`,
      );
    });
    board.addEventListener("mouseleave", () => {
      hush();
      cursor.move(cursor.fixed);
    });
    board.addEventListener("click", (event) => pick(stepAt(event)));
    cursor.boards.push(board);
    fill(place, board, shareLegend(answer.most));
  } catch (error) {
    if (error.name !== "AbortError") fill(place, failed(error));
  }
}

// A column for each stretch of steps, a cell for each power of two: the lighter, the more elements.
function picture(answer, shares, { low, high, bins, first, last, cursor, tensor }) {
  const most = answer.most,
    n = answer.steps.length;
  return canvas(
    190,
    (pen, width, height) => {
      pen.clearRect(0, 0, width, height);
      const x = timeAxis(pen, width, height, first, last),
        room = height - EDGE.top - EDGE.bottom,
        tall = room / (high - low + 1);
      for (let k = 0; k < n; k++) {
        const left = Math.floor(Math.max(x(answer.steps[k]), EDGE.left)),
          right = Math.min(Math.floor(x(k + 1 < n ? answer.steps[k + 1] : answer.last + 1)), width - EDGE.right);
        for (let b = low; b <= high; b++) {
          const v = shares[k * bins + b];
          if (!v) continue;
          pen.fillStyle = color("ramp", Math.sqrt(v / most));
          const from = Math.floor(EDGE.top + (high - b) * tall),
            to = Math.floor(EDGE.top + (high - b + 1) * tall);
          pen.fillRect(left, from, Math.max(1, right - left), to - from);
        }
      }
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillStyle = ink("soft");
      const stride = Math.max(1, Math.ceil((high - low) / 7));
      for (let b = low; b <= high; b += stride)
        pen.fillText(num(2 ** (b + answer.lowest), 2), EDGE.left - 8, EDGE.top + (high - b + 0.5) * tall);
      if (cursor.step !== null) {
        pen.strokeStyle = ink("ink");
        pen.globalAlpha = 0.55;
        const at = Math.round(x(cursor.step)) + 0.5;
        pen.beginPath();
        pen.moveTo(at, EDGE.top);
        pen.lineTo(at, height - EDGE.bottom);
        pen.stroke();
        pen.globalAlpha = 1;
      }
    },
    `magnitudes of ${tensor} over the steps`,
  );
}

const shareLegend = (most) => {
  const bar = h("span", { class: "ramp" });
  bar.style.background = `linear-gradient(90deg,${Array.from({ length: 13 }, (_, k) => color("ramp", k / 12)).join(",")})`;
  return h(
    "div",
    { class: "legend" },
    h("span", { class: "soft" }, "share of the elements"),
    h("span", {}, "0 %"),
    bar,
    h("span", {}, percent(most)),
    h("span", { class: "soft" }, "by its root"),
  );
};

// A curve of the shares for each of some steps, one behind the other.
function ridges(answer, shares, { low, high, bins, tensor, pick }) {
  const n = answer.steps.length,
    count_ = Math.min(MOST_RIDGES, n),
    shown = Array.from({ length: count_ }, (_, k) => Math.round((k * (n - 1)) / Math.max(count_ - 1, 1)));
  const top = 46,
    bottom = 24;
  const places = (height) => (height - top - bottom) / Math.max(count_ - 1, 1);
  const board = canvas(
    260,
    (pen, width, height) => {
      pen.clearRect(0, 0, width, height);
      const x = (b) => EDGE.left + ((b - low) / Math.max(high - low, 1)) * (width - EDGE.left - EDGE.right),
        each = places(height);
      pen.textBaseline = "middle";
      pen.lineJoin = "round";
      shown.forEach((column, k) => {
        const y = top + k * each,
          curve = () => {
            pen.beginPath();
            for (let b = low; b <= high; b++)
              pen.lineTo(x(b), y - (shares[column * bins + b] / answer.most) * top * 0.95);
          };
        curve();
        pen.lineTo(x(high), y);
        pen.lineTo(x(low), y);
        pen.closePath();
        pen.fillStyle = ink("page");
        pen.fill();
        pen.fillStyle = color("ramp", 0.15 + (0.7 * k) / Math.max(count_ - 1, 1));
        pen.globalAlpha = 0.55;
        pen.fill();
        pen.globalAlpha = 1;
        curve();
        pen.strokeStyle = ink("ink");
        pen.lineWidth = 0.8;
        pen.stroke();
        if (k % Math.ceil(count_ / 6) === 0 || k === count_ - 1) {
          pen.fillStyle = ink("soft");
          pen.textAlign = "right";
          pen.fillText(count(answer.steps[column]), EDGE.left - 8, y);
        }
      });
      pen.fillStyle = ink("soft");
      pen.textAlign = "center";
      const stride = Math.max(1, Math.ceil((high - low) / Math.max(2, Math.floor(width / 90))));
      for (let b = low; b <= high; b += stride) pen.fillText(num(2 ** (b + answer.lowest), 2), x(b), height - 10);
    },
    `ridges of the magnitudes of ${tensor}, the newest in front; click for a step`,
  );
  const at = (event) => {
    const box = board.getBoundingClientRect();
    return shown[clamp(Math.round((event.clientY - box.top - top) / places(box.height)), 0, count_ - 1)];
  };
  board.addEventListener("mousemove", (event) => {
    const box = board.getBoundingClientRect(),
      b = clamp(
        Math.round(
          low + ((event.clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right)) * (high - low),
        ),
        low,
        high,
      ),
      column = at(event);
    tell(
      event,
      `step ${count(answer.steps[column])}`,
      `${percent(shares[column * bins + b])} of the elements`,
      `from ${num(2 ** (b + answer.lowest))} to ${num(2 ** (b + 1 + answer.lowest))} in magnitude`,
    );
  });
  board.addEventListener("mouseleave", hush);
  board.addEventListener("click", (event) => pick(answer.steps[at(event)]));
  return board;
}
