// The runs of a folder: what each is, how it goes, and which to compare.
function runsPage(state, app) {
  const title = h("h2", {}),
    folder = h("span", { class: "soft path" }),
    list = h("div", { class: "list" }, busy("looking for runs"));
  const chosen = new Set();
  const places = new Map(),
    signal = app.signal;
  let answer = null,
    looking = false;
  const draw = () =>
    answer && drawRuns({ title, folder, list, find, compare, places, app, again: draw }, answer, state, chosen);
  // What was found in each run, one run after the other; for those that take long, its own page asks.
  const look = async () => {
    if (looking) return;
    looking = true;
    try {
      for (const run of answer.runs) {
        if (FOUND.has(stampOf(run)) || !run.steps || run.steps > LONG_RUN || run.state === "recording") continue;
        noteFound(stampOf(run), await searched(run.name, signal));
        if (places.has(run.name)) fill(places.get(run.name), foundIn(run));
      }
    } catch {
      /* it was removed, or the reader has left; the next turn tries again */
    }
    looking = false;
  };
  const find = searchBox("a run", state.find, (text) => {
    state.find = text;
    app.note(state);
    draw();
  });
  const compare = h(
    "button",
    {
      disabled: true,
      onclick: () => {
        const [first, ...rest] = [...chosen];
        app.go({ page: "compare", run: first, with: beside(rest) });
      },
    },
    "compare",
  );
  app.keys = (event) => event.key === "c" && compare.click();
  app.refreshed = async () => {
    const before = answer;
    answer = await askRuns(app.signal);
    if (JSON.stringify(before) !== JSON.stringify(answer)) draw();
    look();
  };
  app.refreshed().catch((error) => error.name === "AbortError" || fill(list, failed(error)));
  return h(
    "section",
    { class: "page runs" },
    h("div", { class: "bar" }, title, folder, h("span", { class: "grow" }), find, compare),
    list,
  );
}

// The severities of what was found, by run and how long it was then.
const FOUND = new Map();
const stampOf = (run) => `${run.name} ${run.bytes}`;
const noteFound = (stamp, { findings }) =>
  FOUND.set(
    stamp,
    findings.map((each) => each.severity),
  );
const worstOf = (severities) => ["error", "warning", "note"].find((each) => severities.includes(each));
function foundIn(run) {
  const severities = FOUND.get(stampOf(run)),
    worst = severities && worstOf(severities);
  const isLong = run.steps > LONG_RUN || run.state === "recording" || !run.steps;
  if (!severities)
    return h("span", { class: "soft" }, isLong ? "not searched" : "searching…");
  return worst
    ? link({ page: "findings", run: run.name }, plural(severities.filter((each) => each === worst).length, worst), {
        class: `severity ${worst}`,
      })
    : h("span", { class: "soft" }, "none");
}
// What the list is sorted by, a click on its head each: how a column looks, what a run has there, and whether most comes
// first. Who sorts twice turns it around.
const COLUMNS = {
  run: ["", (run) => run.name],
  state: ["word", (run) => run.state],
  started: ["roomy", (run) => run.created, true],
  steps: ["right", (run) => run.steps, true],
  findings: ["", (run) => gravity(run), true],
  tensors: ["right roomy", (run) => run.tensors, true],
  size: ["right roomy", (run) => run.bytes, true],
  loss: ["", (run) => (run.spark ? asNumber(run.spark.last) : Number.NaN)],
};
const gravity = (run) =>
  (FOUND.get(stampOf(run)) || []).reduce((sum, each) => sum + { error: 1e8, warning: 1e4, note: 1 }[each], 0);
function sorted(runs, by) {
  const [, turned, name] = /^(-?)(.*)$/.exec(by || ""),
    [, valueOf, most] = COLUMNS[name] || [];
  if (!valueOf) return runs;
  const way = Boolean(most) === Boolean(turned) ? 1 : -1,
    is = (v) => typeof v !== "number" || Number.isFinite(v); // what has no number comes last
  return [...runs].sort((one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    if (!is(a) || !is(b)) return is(b) - is(a);
    return typeof a === "string" ? way * a.localeCompare(b, undefined, { numeric: true }) : way * (a - b);
  });
}
function sortable(name, look, state, app, again) {
  const by = state.sort === name ? `-${name}` : name,
    isBy = (state.sort || "").replace("-", "") === name,
    isUp = Boolean(COLUMNS[name][2]) === state.sort?.startsWith("-");
  return h(
    "th",
    { class: look, "aria-sort": isBy ? (isUp ? "ascending" : "descending") : null },
    h(
      "button",
      {
        title: `sort by ${name}`,
        onclick: () => {
          state.sort = by;
          app.note(state);
          again();
        },
      },
      name,
      isBy ? (isUp ? " ▲" : " ▼") : "",
    ),
  );
}
const stateOf = (run) => (run.state === "finished" ? "done" : run.state === "recording" ? "live" : "silent");
function drawRuns({ title, folder, list, find, compare, places, app, again }, answer, state, chosen) {
  const { wanted } = finder(state.find);
  const shown = answer.runs.filter((run) => wanted(run.name)),
    runs = sorted(shown, state.sort);
  title.textContent = plural(runs.length, "run");
  folder.textContent = `in ${answer.folder}`;
  folder.title = answer.folder;
  const counted = () => {
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size < 2 ? "compare" : `compare ${chosen.size}`;
    compare.title = chosen.size < 2 ? "select two or more runs" : "";
  };
  const choose = (name, on) => {
    on ? chosen.add(name) : chosen.delete(name);
    counted();
  };
  counted();
  if (!answer.runs.length && !answer.unreadable.length) {
    fill(
      list,
      empty("No runs yet", `There is no recording in ${answer.folder}.`, "Record one: backsight run --record train.py"),
    );
    return;
  }
  const broken = answer.unreadable.filter((run) => wanted(run.name));
  if (!runs.length && !broken.length) {
    const all = answer.runs.map((run) => run.name);
    fill(
      list,
      noMatch(state.find, all, "these runs", (name) => {
        find.value = name;
        find.dispatchEvent(new Event("input"));
      }),
    );
    return;
  }
  const told = new Map(); // runs are told apart by what was chosen for them
  chosenApart(shown.map((run) => run.chosen)).forEach((pairs, k) => told.set(shown[k].name, toldApart(pairs)));
  const placeOf = (run) => {
    const place = h("td", {}, foundIn(run));
    places.set(run.name, place);
    return place;
  };
  fill(
    list,
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
            h("th", {}),
            Object.entries(COLUMNS).map(([name, [look]]) => sortable(name, look, state, app, again)),
          ),
        ),
        h(
          "tbody",
          {},
          runs.map((run) =>
            h(
              "tr",
              {
                class: "open",
                onclick: (event) =>
                  event.target.closest("a, button, input, .tick") || app.go({ page: "metrics", run: run.name }),
              },
              h(
                "td",
                { class: "tick" },
                h("input", {
                  type: "checkbox",
                  "aria-label": `choose ${run.name}`,
                  checked: chosen.has(run.name),
                  onchange: (event) => choose(run.name, event.target.checked),
                }),
              ),
              h(
                "td",
                { class: "first" },
                link({ page: "metrics", run: run.name }, run.name),
                told.get(run.name) ? h("span", { class: "chosen" }, told.get(run.name)) : null,
                run.world > 1 ? h("span", { class: "chosen" }, `${run.ranks} of ${run.world} ranks`) : null,
                run.damage !== "none"
                  ? h("span", { class: "tag bad", title: "skipped while reading" }, `damaged: ${run.damage}`)
                  : null,
              ),
              h("td", { class: "word" }, h("span", { class: `state ${stateOf(run)}`, title: run.state }, run.state)),
              h("td", { class: "soft roomy" }, moment(run.created)),
              h("td", { class: "right" }, count(run.steps)),
              placeOf(run),
              h("td", { class: "right roomy" }, count(run.tensors)),
              h("td", { class: "right soft roomy" }, bytes(run.bytes)),
              h("td", { class: "spark" }, run.spark ? spark(run.spark) : null),
            ),
          ),
          broken.map((run) =>
            h(
              "tr",
              {},
              h("td", { class: "tick" }),
              h("td", { class: "first" }, run.name),
              h("td", { colspan: "7" }, h("span", { class: "tag bad" }, "unreadable"), ` ${run.why}`),
            ),
          ),
        ),
      ),
    ),
  );
}

function spark({ name, values: packed, last }) {
  const told = [...unpacked(packed)],
    log = isFlattened(told),
    values = log ? told.map((v) => (v > 0 ? Math.log(v) : Number.NaN)) : told,
    finite = values.filter(Number.isFinite),
    low = Math.min(...finite),
    high = Math.max(...finite);
  const board = canvas(
    26,
    (pen, width, height) => {
      pen.clearRect(0, 0, width, height);
      if (!finite.length) return;
      pen.strokeStyle = pen.fillStyle = ink("line3");
      if (values.length === 1) pen.fillRect(2, height / 2 - 1.5, 3, 3);
      pen.lineWidth = 1.4;
      pen.beginPath();
      values.forEach((v, k) => {
        if (Number.isFinite(v))
          pen.lineTo(
            (k / Math.max(values.length - 1, 1)) * (width - 4) + 2,
            height - 3 - ((v - low) / (high - low || 1)) * (height - 6),
          );
      });
      pen.stroke();
    },
    `${name} over the steps, now ${num(last)}${log ? ", log scale" : ""}`,
  );
  return h(
    "div",
    { class: "sparkline" },
    h("span", { class: "soft scaled" }, board, log ? "log scale" : null),
    h(
      "span",
      {},
      h("span", { class: "soft" }, `${name} `),
      h("span", { class: Number.isFinite(asNumber(last)) ? "" : "bad" }, num(last)),
    ),
  );
}
