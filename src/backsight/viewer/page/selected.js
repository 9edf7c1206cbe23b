// What is known of the box that was chosen in the graph: its lines, and what was recorded of it at the step.
const MOST_IN_PANEL = 24;

// `told` are the lines of the picture; `inside` says by kind which tensors are in the box, `open` leads to one of them.
function selectedPanel(box, told, { state, kind, step, inside, code, open, close, app }) {
  const [first, ...rest] = (told || "").split("\n").filter(Boolean);
  const table = h("div", {}),
    panel = h(
      "aside",
      { class: "selected", "aria-label": "the selected box" },
      h("button", { class: "drop", "aria-label": "close the panel", onclick: close }, "×"),
      h("h3", {}, box.title),
      h("p", { class: "soft" }, first),
      rest.map((line) => h("p", {}, line.startsWith("from ") ? ["from ", codeLine(line.slice(5), code)] : line)),
      table,
    );
  const kinds = Object.entries(inside)
    .filter(([, boxes]) => boxes[box.index])
    .sort(([a], [b]) => (b === kind) - (a === kind));
  if (kinds.length) {
    fill(table, busy("reading"));
    recordedAt(
      state,
      step,
      kinds.map(([kind]) => kind),
      app,
    )
      .then((found) => fill(table, statistics(kinds, box.index, found, step, open)))
      .catch((error) => error.name === "AbortError" || fill(table, failed(error)));
  }
  return panel;
}

// The norm, minimum and maximum of every tensor of these kinds at one step, and what in it was not finite.
async function recordedAt(state, step, kinds, app) {
  const found = new Map();
  if (!LIVE) return found;
  await Promise.all(
    kinds.map(async (kind) => {
      const given = { kind, first: step, last: step, columns: 1, rank: state.rank },
        answers = await Promise.all(
          ["l2", "min", "max"].map((stat) => ask(state.run, "heatmap", { ...given, stat }, app.signal)),
        );
      const [norms, low, high] = answers.map((answer) => unpacked(answer.values)),
        bad = unpacked(answers[0].nonfinite);
      answers[0].tensors.forEach(([name], k) => found.set(`${kind} ${name}`, [norms[k], low[k], high[k], bad[k]]));
    }),
  );
  return found;
}

function statistics(kinds, index, found, step, open) {
  const rows = kinds.flatMap(([kind, boxes]) => boxes[index].map((name) => [kind, name]));
  return [
    h("h3", {}, `Recorded${LIVE ? `, step ${count(step)}` : ""}`),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", {}, "tensor"), h("th", {}, LIVE ? "norm, min to max" : ""))),
      h(
        "tbody",
        {},
        rows.slice(0, MOST_IN_PANEL).map(([kind, name]) => {
          const [value, low, high, wrong] = found.get(`${kind} ${name}`) || [Number.NaN];
          return h(
            "tr",
            {},
            h(
              "td",
              {},
              h("button", { class: "way", onclick: () => open(name, kind) }, name),
              h("span", { class: "soft" }, ` ${kindName(kind)}`),
            ),
            h(
              "td",
              { class: wrong ? "bad" : "" },
              wrong ? NOT_FINITE[wrong] : Number.isNaN(value) ? "–" : num(value),
              low <= high ? h("div", { class: "soft" }, low < high ? `${num(low)} to ${num(high)}` : num(low)) : null,
            ),
          );
        }),
      ),
    ),
    rows.length > MOST_IN_PANEL ? h("p", { class: "soft" }, `and ${count(rows.length - MOST_IN_PANEL)} more`) : null,
  ];
}
