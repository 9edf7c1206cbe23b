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

// The norm of every tensor of these kinds at one step, and whether all of it was finite.
async function recordedAt(state, step, kinds, app) {
  const found = new Map();
  if (!LIVE) return found;
  await Promise.all(
    kinds.map(async (kind) => {
      const given = { kind, stat: "l2", first: step, last: step, columns: 1, rank: state.rank };
      const answer = await ask(state.run, "heatmap", given, app.signal);
      const values = unpacked(answer.values),
        bad = unpacked(answer.nonfinite);
      answer.tensors.forEach(([name], row) => found.set(`${kind} ${name}`, [values[row], bad[row]]));
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
      h("thead", {}, h("tr", {}, h("th", {}, "tensor"), h("th", {}, LIVE ? "norm" : ""))),
      h(
        "tbody",
        {},
        rows.slice(0, MOST_IN_PANEL).map(([kind, name]) => {
          const [value, wrong] = found.get(`${kind} ${name}`) || [Number.NaN, 0];
          return h(
            "tr",
            {},
            h(
              "td",
              {},
              h("button", { class: "way", onclick: () => open(name, kind) }, name),
              h("span", { class: "soft" }, ` ${kindName(kind)}`),
            ),
            h("td", { class: wrong ? "bad" : "" }, wrong ? "NaN or ∞" : Number.isNaN(value) ? "–" : num(value)),
          );
        }),
      ),
    ),
    rows.length > MOST_IN_PANEL ? h("p", { class: "soft" }, `and ${count(rows.length - MOST_IN_PANEL)} more`) : null,
  ];
}
