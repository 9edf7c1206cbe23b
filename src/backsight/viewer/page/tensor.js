// One tensor: its values, norms, zeros and magnitudes over the same steps, with all that is about the same parameter.
const SHARE = "zero_fraction";

function tensorPage(state, info, app) {
  const { tensor, kind } = state,
    given = { tensor, kind, first: state.first, last: state.last, columns: LIVE ? 600 : 300, rank: state.rank };
  const body = h("div", { class: "stack" }, busy("reading"));
  const page = h(
    "section",
    { class: "page" },
    h("div", { class: "bar title" }, h("h2", {}, tensor), h("span", { class: "tag" }, KIND_NAMES[kind] || kind)),
    body,
  );
  app.refreshed = async () => {
    const [answer, related, marks] = await Promise.all([
      ask(state.run, "lines", given, app.signal),
      ask(state.run, "related", { tensor, kind }, app.signal),
      ask(state.run, "marks", { rank: state.rank }, app.signal),
    ]);
    const others = related.same.filter(([n, k]) => n !== tensor || k !== kind);
    const norms = await Promise.all(
      others.slice(0, 5).map(async ([n, k]) => {
        const asked = { ...given, tensor: n, kind: k, stat: LIVE ? "l2" : undefined };
        return holds("lines", asked) ? [n, k, await ask(state.run, "lines", asked, app.signal)] : null;
      }),
    );
    drawTensor(page, body, answer, related, marks, norms.filter(Boolean), { state, info, app });
  };
  app.refreshed().catch((error) => error.name === "AbortError" || fill(body, failed(error)));
  // The step of all charts, by the keyboard.
  app.keys = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !info.steps.count) return;
    event.preventDefault();
    const from = state.step === undefined ? info.steps.last + (by < 0 ? 1 : 0) : Number(state.step);
    app.go({ ...state, step: clamp(from + by * (event.shiftKey ? 10 : 1), info.steps.first, info.steps.last) });
  };
  return page;
}

function drawTensor(page, body, answer, related, marks, norms, { state, info, app }) {
  const { tensor, kind } = state,
    go = (change) => app.go({ ...state, ...change });
  const first = answer.first,
    last = Math.max(
      first + 1,
      Math.min(
        first + answer.columns * answer.stretch - 1,
        state.last === undefined ? Infinity : state.last,
        info.steps.last,
      ),
    );
  const step = state.step === undefined ? null : Number(state.step);
  const cursor = newCursor(step),
    pick = (at) => go({ step: at });
  const values = Object.fromEntries(Object.entries(answer.lines).map(([name, line]) => [name, unpacked(line)]));
  const nonfinite = { values: unpacked(answer.nonfinite), at: (k) => answer.first + k * answer.stretch };
  const wrong = nonfinite.values.findIndex((n) => n > 0);
  fill(
    page.firstChild,
    h("h2", {}, tensor),
    h("span", { class: "tag" }, KIND_NAMES[kind] || kind),
    h(
      "span",
      { class: "soft" },
      [
        shaped(related.shape),
        related.dtype,
        related.module !== null ? `of ${related.module || "the model"}` : null,
        related.replicated ? "replicated on every rank" : null,
      ]
        .filter(Boolean)
        .join(", "),
    ),
    wrong >= 0
      ? h(
          "button",
          { class: "alarm", onclick: () => go({ step: nonfinite.at(wrong) }) },
          `NaN or ∞ from step ${count(nonfinite.at(wrong))} on`,
        )
      : null,
    h("span", { class: "grow" }),
    state.first !== undefined || state.last !== undefined
      ? h("button", { onclick: () => go({ first: undefined, last: undefined }) }, "all steps")
      : null,
    LIVE || holds("graph", {})
      ? link({ page: "graph", run: state.run, tensor, kind, step: state.step }, "its place in the graph", {
          class: "aside",
        })
      : null,
    related.same.length > 1
      ? segments(
          "of the same parameter",
          related.same.map(([n, k]) => [`${k} ${n}`, k === "state" ? n.split(".").pop() : k]),
          `${kind} ${tensor}`,
          (key) => {
            const at = key.indexOf(" ");
            go({ kind: key.slice(0, at), tensor: key.slice(at + 1) });
          },
        )
      : null,
    related.beside.length
      ? select(
          "beside it",
          [
            ["", `${plural(related.beside.length, "other")} of this module`],
            ...related.beside.map(([n, k]) => [`${k} ${n}`, `${k}  ${n}`]),
          ],
          "",
          (key) => {
            if (!key) return;
            const at = key.indexOf(" ");
            go({ kind: key.slice(0, at), tensor: key.slice(at + 1) });
          },
        )
      : null,
  );
  if (!answer.columns) {
    fill(body, empty("Nothing recorded for it in these steps"));
    return;
  }
  const line = (name, color, text) => ({
    name: text || STAT_NAMES[name] || name,
    color,
    ...even(answer, values[name]),
  });
  const common = { first, last, cursor, pick };
  const spread = { low: even(answer, values.min), high: even(answer, values.max), color: "line1" };
  const meanLine = line("mean", "line1"),
    panels = [];
  panels.push(
    panel(
      "Values",
      chart({ ...common, lines: [meanLine], band: spread, nonfinite, label: `mean, min and max of ${tensor}` }),
      names([meanLine]),
      "the band spans the min and max element",
    ),
  );
  const normLines = [
    { ...line("l2", "line1", kind === "state" ? tensor.split(".").pop() : kind) },
    ...norms.map(([n, k, each], at) => ({
      name: k === "state" ? n.split(".").pop() : k,
      color: `line${2 + (at % 5)}`,
      ...even(each, unpacked(each.lines.l2)),
    })),
  ];
  panels.push(
    panel(
      norms.length ? "Norms of the same parameter" : "Norm",
      chart({
        ...common,
        lines: normLines,
        log: normLines.some((l) => l.values.some((v) => v > 0)),
        nonfinite,
        label: "norms",
      }),
      names(normLines),
      "log scale",
    ),
  );
  const histogram = h("div", { class: "slot" }, busy("reading magnitudes"));
  panels.push(panel("Magnitudes", histogram, null, "share of elements by power of two; the darker, the fewer"));
  if (values[SHARE].some((v) => v > 0)) {
    const zeros = line(SHARE, "line2");
    panels.push(
      panel(
        "Share of zeros",
        chart({ ...common, height: 110, lines: [zeros], show: percent, label: "share of zeros" }),
        null,
      ),
    );
  }
  const loss = lossOf(marks);
  if (loss) {
    const each = { name: loss, color: "line3", ...uneven(marks.lines[loss].steps, unpacked(marks.lines[loss].values)) };
    panels.push(panel(loss, chart({ ...common, height: 110, lines: [each], label: loss }), null));
  }
  const rows = h(
    "div",
    { class: "slot" },
    LIVE ? busy("reading rows") : h("p", { class: "soft" }, "The rows are in the run: open it with backsight view."),
  );
  fill(
    body,
    panels,
    h(
      "figure",
      { class: "panel wide" },
      h(
        "figcaption",
        {},
        h("h3", {}, "Rows"),
        h(
          "span",
          { class: "soft" },
          step === null ? "the latest; click a chart for others" : `around step ${count(step)}`,
        ),
      ),
      rows,
    ),
  );
  histograms(histogram, { state, first, last, cursor, pick, app });
  if (LIVE) valueTable(rows, { state, info, step, app });
}

async function histograms(place, { state, first, last, cursor, pick, app }) {
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
    const most = answer.most;
    const board = canvas(
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
      `magnitudes of ${state.tensor} over the steps`,
    );
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
    fill(place, board);
  } catch (error) {
    if (error.name !== "AbortError") fill(place, failed(error));
  }
}

async function valueTable(place, { state, info, step, app }) {
  const middle = step === null ? info.steps.last : step,
    span = Math.max(12, Math.round((info.steps.last - info.steps.first) / Math.max(info.steps.count - 1, 1)) * 12);
  try {
    const answer = await ask(
      state.run,
      "rows",
      {
        tensor: state.tensor,
        kind: state.kind,
        first: Math.max(0, step === null ? middle - 2 * span : middle - span),
        last: middle + span,
        rank: state.rank,
      },
      app.signal,
    );
    if (!answer.rows.length) {
      fill(place, h("p", { class: "soft" }, "No rows around this step."));
      return;
    }
    const columns = answer.columns
      .map((name, at) => [name, at])
      .filter(
        ([name, at]) =>
          !(name === "call" && answer.rows.every((r) => r[at] === 0)) &&
          !(name === "ranks" && answer.rows.every((r) => r[at] === 1)),
      );
    const cellText = (name, v) =>
      name === "step" || name === "call" || name === "count"
        ? count(v)
        : name === SHARE
          ? percent(asNumber(v))
          : num(v, 4);
    fill(
      place,
      h(
        "div",
        { class: "table" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              columns.map(([name]) => h("th", {}, STAT_NAMES[name] || name)),
            ),
          ),
          h(
            "tbody",
            {},
            answer.rows.map((row) =>
              h(
                "tr",
                { class: row[0] === step ? "here" : "" },
                columns.map(([name, at]) =>
                  h(
                    "td",
                    { class: (name === "nans" || name === "infs") && row[at] ? "bad" : "" },
                    cellText(name, row[at]),
                  ),
                ),
              ),
            ),
          ),
        ),
      ),
    );
    const here = place.querySelector(".here");
    if (here) place.querySelector(".table").scrollTop = here.offsetTop - 120;
  } catch (error) {
    if (error.name !== "AbortError") fill(place, failed(error));
  }
}
