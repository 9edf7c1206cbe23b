// Help for the keyboard, and what a page has to say of itself: of a link that asks for what is not there, of a new run.
const KEYS = [
  ["e", "Metrics"],
  ["h", "Heatmap"],
  ["g", "Graph"],
  ["f", "Findings"],
  ["m", "Memory"],
  ["c", "Compare; in the list of runs: compare the selected ones"],
  ["a", "About"],
  ["r", "all runs"],
  ["/", "find: several words, layers.*.weight, or /expression/"],
  ["Escape", "reset the zoom; close what is open"],
  ["arrows, Page Up, Page Down", "move through the heatmap; Enter opens the cell; with Shift ten columns"],
  ["space", "graph: play the training"],
  ["←, →", "graph and tensor: one step; with Shift ten"],
  ["l", "light or dark"],
  ["?", "this help"],
];
const OF_RUNS = ["r", "c"]; // a report holds one run
const WITH_MOUSE = [
  ["drag in a chart or the heatmap", "zoom in; a double click resets"],
  ["click in a chart of a tensor", "pin that step"],
  ["click a module", "open or close it"],
];

function toggleHelp() {
  const open = document.querySelector("dialog[open]");
  if (open) return open.close();
  const table = (rows, tag) =>
    h(
      "dl",
      {},
      rows.map(([keys, what]) => [
        h(
          "dt",
          {},
          keys.split(", ").map((key) => [h(tag, {}, key), " "]),
        ),
        h("dd", {}, what),
      ]),
    );
  opened(
    "help",
    "",
    h("h2", {}, "Keys"),
    table(
      KEYS.filter(([key]) => LIVE || !OF_RUNS.includes(key)),
      "kbd",
    ),
    h("h2", {}, "Mouse"),
    table(WITH_MOUSE, "span"),
  );
}

const notice = (lines) =>
  lines.length
    ? h(
        "div",
        { class: "notice", role: "status" },
        h(
          "div",
          {},
          lines.map((line) => h("p", {}, line)),
        ),
        h(
          "button",
          { class: "drop", "aria-label": "close", onclick: (event) => event.target.closest(".notice").remove() },
          "×",
        ),
      )
    : null;

// What a link asks for that this run does not hold, in sentences: the page shows something else in its place.
function strangeIn(state, info) {
  const found = wishesWithout(state, info);
  if (!ranksOf(info).includes(state.rank)) delete state.rank; // all of them are shown
  if (!(state.direction in DIRECTIONS)) delete state.direction;
  if (LIVE && info.rank !== null) state.rank ??= String(info.rank);
  return found;
}
const ranksOf = (info) => [...info.ranks.map(String), ...(info.rank === null ? [] : [ALL_RANKS])];
function wishesWithout(state, info) {
  const one = (what, key, there) =>
    state[key] !== undefined && !there.includes(state[key])
      ? `This link asks for ${what} “${state[key]}”, which this run does not have${
          there.length && there.length < 30 ? `: it has ${there.filter(Boolean).join(", ")}` : ""
        }.`
      : null;
  return [
    one("the kind", "kind", info.kinds),
    one("the statistic", "stat", [...info.stats, ...info.metrics, SPREAD]),
    one("rank", "rank", ["", ...ranksOf(info)]),
    one("the axis", "axis", Object.keys(AXES)),
    one("the scale", "scale", ["", "row"]),
    one("the direction", "direction", Object.keys(DIRECTIONS)),
    state.step !== undefined && info.steps.count && (+state.step < info.steps.first || +state.step > info.steps.last)
      ? `This link asks for step ${count(+state.step)}; this run has steps ${count(info.steps.first)} to ${count(info.steps.last)}.`
      : null,
  ].filter(Boolean);
}
