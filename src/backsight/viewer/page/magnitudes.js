// How the magnitudes of a tensor are spread over the steps: as a picture, or as ridges by sign, the newest in front.
async function magnitudes(place, { state, first, last, cursor, pick, finite, app, height = 190 }) {
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
      fill(place, ridges(answer, { tensor: state.tensor, pick, finite }));
      return;
    }
    const board = picture(answer, shares, { low, high, bins, first, last, cursor, height, tensor: state.tensor });
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
          high -
            Math.floor((event.clientY - box.top - EDGE.top) / ((height - EDGE.top - EDGE.bottom) / (high - low + 1))),
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
    fill(place, board, height === LOW ? null : shareLegend(answer.most));
  } catch (error) {
    if (error.name !== "AbortError") fill(place, failed(error));
  }
}

// A column for each stretch of steps, a cell for each power of two: the lighter, the more elements.
function picture(answer, shares, { low, high, bins, first, last, cursor, height, tensor }) {
  const most = answer.most,
    n = answer.steps.length;
  return canvas(
    height,
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
      const stride = Math.max(1, Math.ceil((high - low) / (height / 24)));
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
    h("span", { class: "soft" }, "square root scale"),
  );
};
