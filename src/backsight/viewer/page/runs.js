// The runs of a folder: what each is, how it goes, and which to compare.
function runsPage(state, app) {
  const title = h("h2", {}),
    folder = h("span", { class: "soft path" }),
    list = h("div", { class: "list" }, busy("looking for runs"));
  const chosen = new Set();
  const found = new Map(),
    places = new Map(),
    signal = app.signal;
  let answer = null,
    looking = false;
  const draw = () =>
    answer && drawRuns({ title, folder, list, find, compare, places, found, app }, answer, state, chosen);
  // What was found in each run, one run after the other; for those that take long, its own page asks.
  const look = async () => {
    if (looking) return;
    looking = true;
    try {
      for (const run of answer.runs) {
        if (found.has(stampOf(run)) || !run.steps || run.steps > LONG_RUN || run.state === "recording") continue;
        found.set(
          stampOf(run),
          (await searched(run.name, signal)).findings.map((each) => each.severity),
        );
        if (places.has(run.name)) fill(places.get(run.name), foundIn(run, found));
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

const stampOf = (run) => `${run.name} ${run.bytes} ${run.steps}`;
function foundIn(run, found) {
  const severities = found.get(stampOf(run)),
    worst = severities && ["error", "warning", "note"].find((each) => severities.includes(each));
  if (!severities) return h("span", { class: "soft", title: "not searched yet" }, "–");
  return worst
    ? link({ page: "findings", run: run.name }, plural(severities.filter((each) => each === worst).length, worst), {
        class: `severity ${worst}`,
      })
    : h("span", { class: "soft" }, "none");
}
const stateOf = (run) => (run.state === "finished" ? "done" : run.state === "recording" ? "live" : "silent");
function drawRuns({ title, folder, list, find, compare, places, found, app }, answer, state, chosen) {
  const { wanted } = finder(state.find);
  const runs = answer.runs.filter((run) => wanted(run.name));
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
  // Runs of one script are told apart by what was chosen for them.
  const told = new Map();
  for (const script of new Set(runs.map((run) => run.script))) {
    const alike = runs.filter((run) => run.script === script);
    chosenApart(alike.map((run) => run.chosen)).forEach((pairs, k) => told.set(alike[k].name, toldApart(pairs)));
  }
  const placeOf = (run) => {
    const place = h("td", {}, foundIn(run, found));
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
            [
              ["", ""],
              ["run", ""],
              ["state", "word"],
              ["started", "roomy"],
              ["steps", "right"],
              ["findings", ""],
              ["tensors", "right roomy"],
              ["ranks", "right roomy"],
              ["size", "right roomy"],
              ["", ""],
            ].map(([t, c]) => h("th", { class: c }, t)),
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
                  event.target.closest("a, button, input, .tick") || app.go({ page: "heatmap", run: run.name }),
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
                link({ page: "heatmap", run: run.name }, run.name),
                told.get(run.name) ? h("span", { class: "chosen" }, told.get(run.name)) : null,
                run.damage !== "none"
                  ? h("span", { class: "tag bad", title: "skipped while reading" }, `damaged: ${run.damage}`)
                  : null,
              ),
              h("td", { class: "word" }, h("span", { class: `state ${stateOf(run)}`, title: run.state }, run.state)),
              h("td", { class: "soft roomy" }, moment(run.created)),
              h("td", { class: "right" }, count(run.steps)),
              placeOf(run),
              h("td", { class: "right roomy" }, count(run.tensors)),
              h(
                "td",
                { class: "right roomy" },
                run.ranks === run.world ? String(run.world) : `${run.ranks} of ${run.world}`,
              ),
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
              h("td", { colspan: "8" }, h("span", { class: "tag bad" }, "unreadable"), ` ${run.why}`),
            ),
          ),
        ),
      ),
    ),
  );
}

function spark({ name, values: packed, last }) {
  const values = unpacked(packed),
    finite = [...values].filter(Number.isFinite),
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
    `${name} over the steps, now ${num(last)}`,
  );
  return h(
    "div",
    { class: "sparkline" },
    board,
    h(
      "span",
      {},
      h("span", { class: "soft" }, `${name} `),
      h("span", { class: Number.isFinite(asNumber(last)) ? "" : "bad" }, num(last)),
    ),
  );
}
