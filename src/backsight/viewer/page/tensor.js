// One tensor: its values, norms, zeros and magnitudes over the same steps, with all that is about the same parameter.
const SHARE = "zero_fraction",
  BAD = ["nans", "infs"];

// With or without the name of the model in front, a name is that of the only tensor that it can mean.
function withRoot({ tensor, kind }, info) {
  const all = info.modules.flatMap((m) => m.tensors.filter(([, k]) => k === kind).map(([name]) => name)),
    close = all.filter((name) => name.endsWith(`.${tensor}`) || tensor.endsWith(`.${name}`));
  return close.length === 1 && !all.includes(tensor) ? close[0] : tensor;
}

function tensorPage(state, info, app) {
  state = { ...state, tensor: withRoot(state, info) };
  const { tensor, kind } = state,
    given = { tensor, kind, first: state.first, last: state.last, columns: LIVE ? 600 : 300, rank: state.rank };
  const body = h("div", { class: "stack" }, busy("reading"));
  const page = h(
    "section",
    { class: "page" },
    h(
      "div",
      { class: "bar title" },
      h("div", { class: "all" }, wayBack(state), h("h2", {}, tensor), h("span", { class: "tag" }, kindName(kind))),
      tensorFinder(state, info, app),
    ),
    body,
  );
  app.refreshed = async () => {
    const there = info.modules.flatMap((m) => m.tensors);
    if (!there.some(([n, k]) => n === tensor && k === kind)) {
      fill(body, noTensor(state, there));
      return;
    }
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

// Another tensor of this kind: by its name its page, by a part of it those in the heatmap that match.
function tensorFinder({ run, kind, rank }, info, app) {
  const named = info.modules.flatMap((m) => m.tensors.filter(([, k]) => k === kind).map(([name]) => name)),
    box = searchBox("a tensor");
  box.setAttribute("list", "named");
  box.addEventListener("change", () => {
    const text = box.value.trim(),
      { wanted } = finder(text),
      found = named.includes(text) ? [text] : named.filter(wanted);
    if (text)
      app.go(
        found.length === 1
          ? { page: "tensor", run, kind, rank, tensor: found[0] }
          : { page: "heatmap", run, kind, rank, find: text },
      );
  });
  return [
    box,
    h(
      "datalist",
      { id: "named" },
      named.slice(0, 2000).map((value) => h("option", { value })),
    ),
  ];
}

const wayBack = ({ run, kind, rank }) =>
  link({ page: "heatmap", run, kind, rank }, `← all ${kindName(kind)}`, { class: "aside" });

// What to say of a tensor that this run does not have, with ways to those that are called alike.
function noTensor(state, there) {
  const of = there.filter(([, k]) => k === state.kind),
    close = near(
      state.tensor,
      (of.length ? of : there).map(([n]) => n),
    ).map((n) => there.find(([name, k]) => name === n && (k === state.kind || !of.length)));
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, "No such tensor"),
    h("p", {}, `This run has no tensor “${state.tensor}” of the kind “${state.kind}”.`),
    close.length
      ? h(
          "p",
          { class: "near" },
          "Close to it: ",
          close.map(([n, k]) => link({ page: "tensor", run: state.run, tensor: n, kind: k }, n, { class: "way" })),
        )
      : null,
    h("p", {}, link({ page: "heatmap", run: state.run }, "All tensors")),
  );
}

// What a tensor is called beside others of its parameter.
const shortly = (name, kind) => (kind === "state" ? name.split(".").pop() : kind);

function drawTensor(page, body, answer, related, marks, norms, { state, info, app }) {
  const { tensor, kind } = state,
    go = (change) => app.go({ ...state, ...change }),
    goTo = (key) => go({ kind: key.split(" ", 1)[0], tensor: key.slice(key.indexOf(" ") + 1) });
  const first = answer.first,
    last = Math.max(
      first + 1,
      Math.min(first + answer.columns * answer.stretch - 1, state.last ?? Infinity, info.steps.last),
    );
  const step = state.step === undefined ? null : Number(state.step);
  const cursor = newCursor(step),
    pick = (at) => go({ step: at });
  const values = Object.fromEntries(Object.entries(answer.lines).map(([name, line]) => [name, unpacked(line)]));
  const nonfinite = { values: unpacked(answer.nonfinite), at: (k) => answer.first + k * answer.stretch };
  const wrong = nonfinite.values.findIndex((n) => n > 0);
  const title = page.firstChild.firstChild;
  fill(
    title,
    wayBack(state),
    h("h2", {}, tensor),
    h("span", { class: "tag" }, kindName(kind)),
    h(
      "span",
      { class: "soft" },
      [
        shaped(related.shape),
        related.dtype,
        related.module === null || (related.module && tensor.startsWith(related.module))
          ? null
          : `of ${related.module || "the model"}`,
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
    rankField(state, info, kind, (rank) => go({ rank })),
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
          related.same.map(([n, k]) => [`${k} ${n}`, shortly(n, k)]),
          `${kind} ${tensor}`,
          goTo,
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
          (key) => key && goTo(key),
        )
      : null,
  );
  if (isLocal(kind, info)) title.append(h("p", { class: "soft whole" }, `${LOCAL}.`));
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
  const around = {
    low: even(
      answer,
      values.mean.map((v, k) => Math.max(v - values.std[k], values.min[k])),
    ),
    high: even(
      answer,
      values.mean.map((v, k) => Math.min(v + values.std[k], values.max[k])),
    ),
    color: "line1",
  };
  const ends = [...values.min, ...values.max].filter(Number.isFinite).sort((a, b) => a - b),
    extent = ends.length && `from ${num(ends[0])} to ${num(ends.at(-1))}`;
  const meanLine = line("mean", "line1"),
    panels = [];
  panels.push(
    panel(
      "Values",
      chart({
        ...common,
        lines: [meanLine],
        band: spread,
        inner: around,
        nonfinite,
        label: `mean, min and max of ${tensor}`,
      }),
      names([meanLine]),
      [extent, related.shape?.length ? "light: min to max; darker: one standard deviation around the mean" : null]
        .filter(Boolean)
        .join("; "),
    ),
  );
  const normLines = [
    line("l2", "line1", shortly(tensor, kind)),
    ...norms.map(([n, k, each], at) => ({
      name: shortly(n, k),
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
  const ridges = Boolean(state.ridges);
  const choice = segments(
    "magnitudes as",
    [
      ["", "picture"],
      ["1", "ridges"],
    ],
    ridges ? "1" : "",
    (each) => go({ ridges: each || undefined }),
  );
  const shape = ridges ? "Distribution" : "Magnitudes";
  panels.push(panel(shape, histogram, choice, "share of elements by power of two"));
  panels[panels.length - 1].classList.add("tall");
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
    panels.push(
      panel(loss, chart({ ...common, height: 110, lines: [each], nonfinite: spoilt(each), label: loss }), null),
    );
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
  magnitudes(histogram, { state, first, last, cursor, pick, finite: wrong < 0, app });
  if (LIVE) valueTable(rows, { state, info, step, app });
}

async function valueTable(place, { state, info, step, app }) {
  const middle = step === null ? info.steps.last : step,
    span = Math.max(12, Math.round((info.steps.last - info.steps.first) / Math.max(info.steps.count - 1, 1)) * 12);
  try {
    let answer = await ask(
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
    // Of one that was recorded long before the end, as by a rule of its own, the last there are.
    if (!answer.rows.length && step === null) {
      const given = { tensor: state.tensor, kind: state.kind, rank: state.rank };
      answer = await ask(state.run, "rows", given, app.signal);
      answer.rows = answer.rows.slice(-2 * span);
    }
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
    const at = (row, name) => row[answer.columns.indexOf(name)],
      finite = (row) => at(row, "count") - at(row, "nans") - at(row, "infs"),
      isEmpty = (row, name) => !BAD.includes(name) && name !== "ranks" && finite(row) < (name === "std" ? 2 : 1);
    const cellText = (name, v, row) =>
      name === "step" || name === "call" || name === "count"
        ? count(v)
        : isEmpty(row, name)
          ? "–"
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
                  h("td", { class: BAD.includes(name) && row[at] ? "bad" : "" }, cellText(name, row[at], row)),
                ),
              ),
            ),
          ),
        ),
      ),
    );
    const here = place.querySelector(".here"),
      rows = place.querySelector(".table");
    rows.scrollTop = here ? here.offsetTop - 120 : step === null ? rows.scrollHeight : 0;
  } catch (error) {
    if (error.name !== "AbortError") fill(place, failed(error));
  }
}
