// Several runs: their numbers overlaid, a tensor of each, where they part, and which of their settings differ.
const others = (state) => (state.with || "").split(",").filter(Boolean).map(decodeURIComponent);
const beside = (names_) => names_.map(encodeURIComponent).join(",") || undefined;
const MOST_PARTINGS = 8;

function comparePage(state, info, app) {
  const place = h("div", { class: "compared" }, busy("reading"));
  const page = h("section", { class: "page" }, place);
  const go = (change) => app.go({ ...state, ...change });
  askRuns(app.signal)
    .then(async (answer) => {
      const there = answer.runs.map((run) => run.name).filter((name) => name !== state.run);
      const chosen = others(state).filter((name) => there.includes(name));
      const left = there.filter((name) => !chosen.includes(name));
      const gone = others(state).filter((name) => !there.includes(name) && name !== state.run);
      if (gone.length) page.prepend(notice(gone.map((name) => `There is no run “${name}” in this folder.`)));
      const chooser = left.length
        ? h(
            "div",
            { class: "bar" },
            select(
              "add a run",
              [["", "choose"], ...left.map((n) => [n, n])],
              "",
              (name) => name && go({ with: beside([...chosen, name]) }),
            ),
          )
        : null;
      if (!there.length) {
        fill(place, chooser, empty("No other run is here: record one more"));
        return;
      }
      if (!chosen.length) {
        fill(place, choosing(answer.runs, state, go));
        return;
      }
      const shown = [state.run, ...chosen],
        all = answer.runs.map((run) => run.name).reverse(); // a new run changes no colour
      await compareRuns(place, chooser, shown, { looks: looksOf(shown, all), state, info, app, go });
    })
    .catch((error) => error.name === "AbortError" || fill(place, failed(error)));
  app.keys = (event) => event.key === "Escape" && app.go(unzoomed(state));
  return page;
}

// The other runs of the folder, to be ticked.
function choosing(runs, state, go) {
  const ticked = new Set(),
    button = h("button", { disabled: true, onclick: () => go({ with: beside([...ticked]) }) }, "compare"),
    pairs = chosenApart(runs.map((run) => run.chosen));
  const choices = runs.map(({ name }, k) =>
    name === state.run
      ? null
      : h(
          "label",
          { class: "choice" },
          h("input", {
            type: "checkbox",
            onchange: (event) => {
              event.target.checked ? ticked.add(name) : ticked.delete(name);
              button.disabled = !ticked.size;
            },
          }),
          name,
          h("span", { class: "chosen" }, toldApart(pairs[k])),
        ),
  );
  return [
    h("div", { class: "bar" }, h("h2", {}, `Compare ${state.run} with`), button),
    h("div", {}, choices),
    h(
      "p",
      { class: "soft" },
      "Their curves are overlaid, and the first step and tensor where two runs diverge are found. For the operation that differs first, trace both programs: ",
      h("code", {}, "backsight diff"),
      ".",
    ),
  ];
}

async function compareRuns(place, chooser, runs, { looks, state, info, app, go }) {
  const given = { first: state.first, last: state.last, columns: 600 };
  const missing = [];
  const madeWith = async (name) => {
    const { settings, parameters } = await ask(name, "settings", {}, app.signal);
    return {
      settings,
      parameters,
      script: settings.find(([group, name]) => group === "program" && name === "script")?.[2],
      chosen: settings.filter(([group, name]) => isChosen(group, name)).map(([, setting, value]) => [setting, value]),
    };
  };
  const known = (
    await Promise.all(
      runs.map(async (name) => {
        try {
          const [answer, made] = await Promise.all([ask(name, "metrics", given, app.signal), madeWith(name)]);
          return { name, answer, ...made, ...looks.get(name) };
        } catch (error) {
          if (error.name === "AbortError") throw error;
          missing.push(`${name}: ${error.message}`);
          return null;
        }
      }),
    )
  ).filter(Boolean);
  const sets = endings(known)?.order ?? known; // in all that follows, as in the table
  chosenApart(sets.map((set) => set.chosen)).forEach((pairs, k) => (sets[k].apart = pairs));
  const off = () => new Set((state.off || "").split(",").filter(Boolean).map(decodeURIComponent));
  const body = h("div", { class: "stack cards" }),
    legend_ = h("div", {}),
    tensor = h("div", {}),
    partings = h("div", {}),
    settings = h("div", {});
  const cursor = newCursor(null);
  let drawTensors = () => {};
  const draw = () => {
    const hidden = off();
    for (const set of sets) set.off = hidden.has(set.name);
    fill(
      legend_,
      runLegend(
        sets,
        (set) => {
          hidden.has(set.name) ? hidden.delete(set.name) : hidden.add(set.name);
          state.off = beside([...hidden]);
          app.note(state);
          draw();
        },
        (set) => {
          const rest = runs.filter((name) => name !== set.name);
          app.go({ ...state, run: rest[0], with: beside(rest.slice(1)) });
        },
      ),
    );
    cursor.boards = [];
    const { wanted, any } = finder(state.find),
      charts = curveCharts(sets, { state, app, cursor, wanted });
    if (charts.length || !any) fill(body, charts.length ? charts : empty("These runs have no numbers yet"));
    else
      fill(
        body,
        noMatch(state.find, metricNames(sets), "the numbers of these runs", (name) => go({ find: name })),
      );
    drawTensors();
  };
  fill(
    place,
    chooser,
    missing.map((why) => h("p", { class: "bad" }, why)),
    sets.length > 1 && !state.first && !state.last
      ? h("div", { class: "first" }, verdict(sets), endingsByChoice(sets))
      : null,
    legend_,
    h("div", { class: "bar" }, curveControls({ state, app, sets: () => sets, again: draw, find: "a metric" })),
    body,
    tensor,
    settings,
    partings,
  );
  draw();
  drawTensors = await overlaidTensors(tensor, sets, { state, info, app, go, cursor });
  drawTensors();
  settingsOf(settings, sets);
  await drawPartings(partings, runs, sets, { state, app });
}

// Where each of the others parts from the best: at once of those that were to be the same, of all else when it is asked.
async function drawPartings(place, runs, sets, { state, app }) {
  const base = endings(sets)?.best?.set.name ?? runs[0],
    setOf = (name) => sets.find((set) => set.name === name),
    isForeign = (name) => setOf(base) && setOf(name) && areForeign(setOf(base), setOf(name)),
    foreign = runs.filter(isForeign),
    rest = runs.filter((name) => name !== base && !isForeign(name));
  const search = async (name, one) => {
    fill(one, busy(`comparing ${name} with ${base}`));
    try {
      const answer = await ask(base, "compare", { with: name }, app.signal);
      const title = !alike.includes(name)
        ? null
        : runs.length > 2
          ? `Where ${name} diverges from ${base}`
          : "Where they diverge";
      fill(one, drawComparison(answer, { ...state, run: base, with: name }, title, setOf(base)?.script));
      await partingCurves(one, answer, base, name, sets, app);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      fill(one, failed(error));
    }
  };
  const setOtherwise = (name) => {
    const [mine, yours] = [base, name].map((each) => new Map(setOf(each)?.chosen));
    return [...mine.keys()].filter((key) => yours.has(key) && said(mine.get(key)) !== said(yours.get(key)));
  };
  const alike = rest.filter((name) => !setOtherwise(name).length),
    other = rest.filter((name) => setOtherwise(name).length);
  const told = (text, details) =>
    place.append(
      h("section", { class: "two" }, h("h2", {}, "Where they diverge"), h("p", { class: "soft" }, text), details),
    );
  if (foreign.length)
    told(
      `${listed([...foreign, base])} have different scripts or parameters, so there is no step at which they diverge.`,
    );
  if (other.length) {
    const one = other.length === 1,
      settings = [...new Set(other.flatMap(setOtherwise))];
    told(
      `${listed(other)} ${one ? "differs" : "differ"} from ${base} in ${listed(settings, MOST_APART)}, so ${one ? "its" : "their"} weights diverge from the first update on. The table at the top says from which step on the losses are apart.`,
      other.map((name) => {
        const found = h("section", {});
        return h(
          "details",
          { ontoggle: (event) => event.target.open && !found.firstChild && search(name, found).catch(() => {}) },
          h("summary", {}, `The first difference of ${name}`),
          found,
        );
      }),
    );
  }
  for (const name of alike.slice(0, MOST_PARTINGS)) {
    const one = h("section", { class: "two" });
    place.append(one);
    await search(name, one);
  }
  if (alike.length > MOST_PARTINGS)
    place.append(h("p", { class: "soft" }, `Divergence is only searched in the first ${MOST_PARTINGS}.`));
}
function listed(words, most = 6) {
  const shown = words.length > most ? [...words.slice(0, most), `${words.length - most} more`] : words;
  return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}` : shown.join();
}

// One statistic of one tensor, of each of the runs.
async function overlaidTensors(place, sets, { state, info, app, go, cursor }) {
  const tensors = info.modules.flatMap((m) => m.tensors),
    kinds = info.kinds;
  if (!tensors.length) return () => {};
  const kind = kinds.includes(state.kind) ? state.kind : kinds[0],
    named = tensors.filter(([, k]) => k === kind).map(([name]) => name),
    stat = info.stats.includes(state.stat) ? state.stat : "l2",
    known = named.includes(state.tensor),
    name = known ? state.tensor : state.tensor ? null : named[0];
  const list = h(
    "datalist",
    { id: "tensors" },
    named.slice(0, 2000).map((each) => h("option", { value: each })),
  );
  const box = h("input", {
    type: "search",
    list: "tensors",
    class: "wide",
    "aria-label": "tensor",
    placeholder: "tensor",
    value: state.tensor || name || "",
    onchange: () => {
      const { wanted, any } = finder(box.value),
        found = any ? named.filter(wanted) : [];
      go({ kind, stat, tensor: named.includes(box.value) ? box.value : found.length === 1 ? found[0] : box.value });
    },
  });
  const board = h("div", {}, busy("reading"));
  fill(
    place,
    h(
      "div",
      { class: "bar apart" },
      h("h2", {}, "A tensor of each"),
      select(
        "kind",
        kinds.map((k) => [k, kindName(k)]),
        kind,
        (k) => go({ kind: k, stat, tensor: state.tensor }),
      ),
      select(
        "statistic",
        [...HEAT_STATS.filter((s) => info.stats.includes(s))].map((s) => [s, STAT_NAMES[s] || s]),
        stat,
        (s) => go({ kind, stat: s, tensor: state.tensor }),
      ),
      box,
      list,
    ),
    board,
  );
  if (name === null) {
    const { wanted } = finder(state.tensor),
      found = named.filter(wanted).slice(0, 12);
    fill(
      board,
      found.length
        ? h(
            "p",
            {},
            `${plural(named.filter(wanted).length, "tensor")} match: `,
            found.map((each) => h("button", { class: "way", onclick: () => go({ kind, stat, tensor: each }) }, each)),
          )
        : noMatch(state.tensor, named, kindName(kind), (each) => go({ kind, stat, tensor: each })),
    );
    return () => {};
  }
  const given = { tensor: name, kind, stat, first: state.first, last: state.last, columns: 600, optional: 1 };
  const answers = await Promise.all(sets.map((set) => ask(set.name, "lines", given, app.signal)));
  const axis = state.axis in AXES ? state.axis : "step";
  return () => {
    const placed = sets.map((set, k) => ({ ...set, lines: answers[k], place: placing(set.answer, axis) })),
      shown = placed.filter((set) => !set.off && set.lines.columns),
      without = placed.filter((set) => !set.lines.columns).map((set) => set.name);
    const [first, last] = spanOf(
      state,
      placed.filter((set) => !set.off),
      axis,
    );
    const lines = shown.map((set) => ({
      name: set.name,
      color: set.color,
      dash: set.dash,
      values: unpacked(set.lines.lines[stat]),
      at: (k) => set.place(set.lines.first + k * set.lines.stretch),
    }));
    if (!lines.length) {
      fill(board, h("p", { class: "soft" }, "None of the shown runs has this tensor."));
      return;
    }
    const even_ = ["mean", "min", "max", "zero_fraction", "nonfinite"].includes(stat);
    fill(
      board,
      panel(
        `${name}: ${STAT_NAMES[stat] || stat} of ${kindName(kind)}`,
        chart({
          height: 240,
          first,
          last,
          lines,
          nonfinite: shown.map(({ lines: found }) => even(found, unpacked(found.nonfinite))),
          log: state.log ? state.log === "1" : !even_,
          show: showing(stat),
          label: `${name} of each run`,
          ...drawnAs(state, app, axis),
          cursor,
        }),
        null,
        without.length ? `not in ${without.join(", ")}` : null,
      ),
    );
  };
}

// What differs between the runs, a column each; the rest on demand.
function settingsOf(place, sets) {
  const rows = new Map();
  sets.forEach(({ settings }, column) => {
    for (const [group, name, value] of settings) {
      const key = `${group}\n${name}`;
      if (!rows.has(key)) rows.set(key, { group, name, values: new Array(sets.length).fill(undefined) });
      rows.get(key).values[column] = value;
    }
  });
  const all = [...rows.values()],
    differs = ({ values }) => new Set(values.map((v) => JSON.stringify(v ?? null))).size > 1;
  const apart = all.filter(differs);
  let whole = false;
  const draw = () => {
    const shown = whole ? all : apart;
    fill(
      place,
      h(
        "article",
        { class: "parting" },
        h(
          "div",
          { class: "bar" },
          h("h2", {}, whole ? "All settings" : "Settings that differ"),
          h(
            "button",
            {
              onclick: () => {
                whole = !whole;
                draw();
              },
            },
            whole ? "only differences" : `all ${count(all.length)}`,
          ),
        ),
        shown.length
          ? h(
              "div",
              { class: "table" },
              h(
                "table",
                { class: "settings" },
                h(
                  "thead",
                  {},
                  h(
                    "tr",
                    {},
                    h("th", {}, ""),
                    h("th", {}, ""),
                    sets.map((set) => h("th", {}, dotOf(set), set.name)),
                  ),
                ),
                h(
                  "tbody",
                  {},
                  shown.map((row, k) =>
                    h(
                      "tr",
                      {},
                      h("td", { class: "soft" }, k && shown[k - 1].group === row.group ? "" : row.group),
                      h("td", {}, shown.filter((r) => r.name === row.name)[1] ? `${row.group} ${row.name}` : row.name),
                      row.values.map((v) => h("td", { class: whole && differs(row) ? "differs" : "" }, said(v))),
                    ),
                  ),
                ),
              ),
            )
          : h("p", { class: "soft" }, "None: arguments, optimizers, seed, commit and versions are the same."),
      ),
    );
  };
  draw();
}

const said = (value) => {
  if ((value ?? "") === "") return "–";
  if (value === true || value === false) return value ? "yes" : "no";
  if (Array.isArray(value) && value.every((each) => typeof each !== "object"))
    return value.length ? value.join(", ") : "none";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
};
