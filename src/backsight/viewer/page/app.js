// The app: the address says everything that is shown, so that a link shows it again.
const VIEWS = [
  ["metrics", "Metrics"],
  ["heatmap", "Heatmap"],
  ["graph", "Graph"],
  ["findings", "Findings"],
  ["memory", "Memory"],
  ["compare", "Compare"],
  ["about", "About"],
];
const PAGES = {
  metrics: metricsPage,
  heatmap: heatmapPage,
  tensor: tensorPage,
  graph: graphPage,
  findings: findingsPage,
  memory: memoryPage,
  compare: comparePage,
  about: aboutPage,
};
const REFRESH = 2500;
const SELDOM = 4; // so many turns pass until a run that has ended is asked for again: another may be in its place
const KNOWN = [
  ...["kind", "stat", "tensor", "step", "first", "last", "find", "closed", "open", "fold", "rank", "with"],
  ...["axis", "smooth", "log", "from", "to", "off", "scale", "ridges", "direction", "calm", "inputs", "sort"],
];

function address(state) {
  if (state.page === "runs" || (!state.run && LIVE)) {
    const kept = Object.entries({ find: state.find, sort: state.sort }).filter(([, value]) => value);
    return `#/${kept.length ? "?" : ""}${kept.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}`;
  }
  const given = Object.entries(state).filter(
    ([key, value]) => !["page", "run"].includes(key) && value !== undefined && value !== "",
  );
  const query = given.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  return `#/${encodeURIComponent(state.run)}/${state.page || "heatmap"}${query ? `?${query}` : ""}`;
}
function stateIn(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [run, page] = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const given = Object.fromEntries(new URLSearchParams(query || ""));
  const kept = Object.fromEntries(KNOWN.filter((k) => k in given).map((k) => [k, given[k]]));
  const strange = Object.keys(given)
    .filter((k) => !KNOWN.includes(k))
    .map((k) => `This link has “${k}”, which this page does not know.`);
  const wrong = (name, wanted) => {
    strange.push(`This link has ${name} “${kept[name]}”, which is not ${wanted}.`);
    delete kept[name];
  };
  for (const name of ["first", "last", "step", "smooth", "inputs"])
    if (name in kept && !/^\d+$/.test(kept[name])) wrong(name, "a whole number");
  for (const name of ["from", "to"]) if (name in kept && !Number.isFinite(Number(kept[name]))) wrong(name, "a number");
  if (page && !(page in PAGES)) strange.push(`There is no page “${page}”: this is the heatmap.`);
  stateIn.strange = strange;
  if (!run) return LIVE ? { page: "runs", ...kept } : { page: "heatmap", run: held.name, ...kept };
  return { page: page in PAGES ? page : "heatmap", run, ...kept };
}

const app = {
  signal: undefined,
  refreshed: null,
  info: null,
  left: null,
  keys: null,
  waited: 0,
  news: [], // what the next page says first
  go(state) {
    follow(address(state));
  },
  // What was found is told by its tab, too.
  found(state, info, answer) {
    noteFound(stampOf({ name: state.run, bytes: info.bytes }), answer);
    counted(state, info, turn);
  },
  // Put into the address what the page already shows.
  note(state) {
    here = address(state);
    move("replaceState");
  },
};
// In the frame of a notebook a page has no address of its own, nor a history: it keeps its place itself.
let here = location.hash;
function move(how) {
  try {
    history[how](null, "", here);
  } catch {
    /* see above */
  }
}
function follow(to) {
  if (to === here) return;
  here = to;
  move("pushState");
  show();
}
// How many findings there are stands on their tab, as soon as that is known.
const tally = h("span", { class: "tally" });
const PAUSE = 800; // ms: what the page itself asks comes first
async function counted(state, info, mine) {
  const stamp = stampOf({ name: state.run, bytes: info.bytes });
  const say = () => {
    const severities = FOUND.get(stamp) || [];
    fill(tally, severities.length ? ` ${count(severities.length)}` : "");
    tally.className = `tally severity ${worstOf(severities) || ""}`;
  };
  say();
  if (
    FOUND.has(stamp) ||
    state.page === "findings" ||
    !holds("findings", {}) ||
    info.state === "recording" ||
    info.steps.count > LONG_RUN
  )
    return;
  if (LIVE) await new Promise((done) => setTimeout(done, PAUSE));
  if (mine !== turn) return;
  noteFound(stamp, await searched(state.run, app.signal));
  if (mine === turn) say();
}
const root = document.getElementById("app"),
  main = h("main", { id: "main", tabindex: "-1" }),
  top_ = h("header", { class: "top" });
let abort = null,
  timer = null,
  turn = 0;

function drawTop(state, info) {
  const views = VIEWS.filter(([page]) => LIVE || page !== "compare"),
    several = state.page === "compare" ? others(state).length : 0,
    one = several ? null : info; // of several runs the page says more
  fill(
    top_,
    h("a", { class: "brand", href: LIVE ? "#/" : address({ page: "heatmap", run: state.run }) }, mark(), "backsight"),
    state.run
      ? [
          h("span", { class: "sep" }, "/"),
          h("h1", { title: state.run }, state.run),
          several ? h("span", { class: "soft" }, `and ${plural(several, "other")}`) : null,
          one ? h("span", { class: `state ${stateOf(one)}` }, one.state) : null,
          h(
            "nav",
            { "aria-label": "views" },
            views.map(([page, text]) =>
              link({ page, run: state.run }, page === "findings" ? [text, tally] : text, {
                // A tensor is below the heatmap, which its tab leads back to.
                "aria-current":
                  state.page === page ? "page" : page === "heatmap" && state.page === "tensor" ? "location" : null,
              }),
            ),
          ),
        ]
      : null,
    one ? h("span", { class: "soft steps" }, recordedOf(one.steps)) : null,
    h(
      "button",
      { class: "theme", title: "light or dark ( l )", "aria-label": "light or dark", onclick: turnTheme },
      "◐",
    ),
    h("button", { class: "ask", title: "help ( ? )", "aria-label": "help", onclick: toggleHelp }, "?"),
  );
  const shown = top_.querySelector("[aria-current]"),
    nav = top_.querySelector("nav");
  // Where it is narrow; with the next frame, as a page that is measured at once is laid out once more.
  if (shown)
    requestAnimationFrame(() => {
      nav.scrollLeft = shown.offsetLeft + shown.offsetWidth - nav.offsetLeft - nav.clientWidth;
    });
}
function turnTheme() {
  theme.turn();
  show(); // pictures hold their colours
}
/** How many steps were recorded, and of how many where not of all. */
function recordedOf(steps) {
  return steps.count && steps.count < steps.made
    ? `${count(steps.count)} of ${plural(steps.made, "step")}`
    : plural(steps.count, "step");
}
function mark() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [k, v] of Object.entries({ viewBox: "0 0 20 20", width: 20, height: 20, "aria-hidden": "true" }))
    svg.setAttribute(k, v);
  for (const [d, filled] of [
    ["M10 2v16M10 2l6 3-6 3z", true],
    ["M2 18c5 0 8-3 8-8", false],
  ]) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    for (const [k, v] of Object.entries({
      d,
      fill: filled ? "currentColor" : "none",
      stroke: "currentColor",
      "stroke-width": 1.6,
    }))
      path.setAttribute(k, v);
    svg.append(path);
  }
  return svg;
}

async function show() {
  const state = stateIn(here),
    mine = ++turn;
  if (turn > 1) ahead.clear(); // another page may ask the same, much later
  hush();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  if (abort) abort.abort();
  clearTimeout(timer);
  abort = new AbortController();
  app.signal = abort.signal;
  const strange = [...app.news, ...stateIn.strange];
  app.news = [];
  app.left?.();
  app.refreshed = app.left = app.keys = null;
  document.title = [
    state.page === "tensor" ? state.tensor : VIEWS.find(([p]) => p === state.page)?.[1],
    state.run,
    "backsight",
  ]
    .filter(Boolean)
    .join(" · ");
  if (state.page === "runs") {
    drawTop(state, null);
    fill(main, runsPage(state, app));
  } else {
    const known = app.info && app.info.asked === state.run ? app.info : null,
      answered = known ? null : ask(state.run, "about", {}, app.signal);
    if (!known) {
      fill(tally);
      answered.catch(() => {}); // it is awaited below
      drawTop(state, null);
      fill(main, busy("opening the run"));
    }
    try {
      const info = known ?? { ...(await answered), asked: state.run };
      if (mine !== turn) return;
      app.info = info;
      drawTop(state, info);
      const said = notice([...strange, ...strangeIn(state, info)]);
      if (state.page === "tensor" && state.tensor) state.kind ??= info.kinds[0];
      if (state.page === "tensor" && !state.tensor)
        fill(main, empty("Which tensor?", "Choose a tensor in the heatmap."));
      else fill(main, PAGES[state.page](state, info, app));
      if (said) main.prepend(said);
      counted(state, info, mine).catch(() => {}); // the page of the findings says what is wrong
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      fill(main, failed(error, LIVE ? link({ page: "runs" }, "All runs") : null));
    }
  }
  scrollTo(0, 0);
  if (LIVE) timer = setTimeout(() => refresh(state, mine), REFRESH);
}

// While a run is recorded the page follows it; hidden pages wait.
async function refresh(state, mine) {
  if (mine !== turn) return;
  const began = performance.now();
  try {
    if (!document.hidden && state.page === "runs") await app.refreshed?.();
    else if (!document.hidden && app.info && (app.info.state === "recording" || ++app.waited % SELDOM === 0)) {
      const info = { ...(await ask(state.run, "about", {}, app.signal)), asked: state.run };
      if (mine !== turn) return;
      if (info.created !== app.info.created) {
        app.info = null;
        app.news = ["This run was recorded again: the page shows the new recording."];
        await show();
        return;
      }
      const moved = info.steps.count !== app.info.steps.count || info.state !== app.info.state;
      Object.assign(app.info, info);
      if (moved) {
        drawTop(state, app.info);
        if (state.page !== "findings" && state.page !== "compare") await app.refreshed?.();
      }
    }
  } catch {
    /* the next turn tries again; what is shown stays */
  }
  // A run that takes long to read is asked for more rarely: following it costs 5 % of one processor at most.
  if (mine === turn)
    timer = setTimeout(() => refresh(state, mine), Math.max(REFRESH, 20 * (performance.now() - began)));
}

const moved = () => {
  if (location.hash !== here) {
    here = location.hash;
    show();
  }
};
addEventListener("popstate", moved);
addEventListener("hashchange", moved);
addEventListener("click", (event) => {
  const link_ = event.target.closest && event.target.closest('a[href^="#"]');
  if (
    !link_ ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  event.preventDefault();
  follow(link_.getAttribute("href"));
});
const WORD = 1500; // ms from one letter of a word to the next
let sought = -WORD;
addEventListener("keydown", (event) => {
  // What is ticked stays in focus, and takes no letters.
  if (
    event.target.matches("input:not([type=checkbox]), select, textarea") ||
    event.metaKey ||
    event.ctrlKey ||
    event.altKey
  )
    return;
  const state = stateIn(here),
    box = main.querySelector("input[type=search]");
  if (event.key === "/") {
    event.preventDefault();
    box?.focus();
    box?.select();
    sought = performance.now();
  }
  // Where there is nothing to find in, what is typed after "/" is no shortcut.
  if (!box && performance.now() - sought < WORD) {
    sought = performance.now();
    return;
  }
  const view = { e: "metrics", h: "heatmap", g: "graph", f: "findings", m: "memory", c: "compare", a: "about" }[
    event.key
  ];
  if (view && state.run && (LIVE || view !== "compare")) app.go({ page: view, run: state.run });
  if (event.key === "?") toggleHelp();
  if (event.key === "l") turnTheme();
  if (event.key === "r" && LIVE) app.go({ page: "runs" });
  app.keys?.(event);
});
fill(
  root,
  h(
    "a",
    {
      class: "skip",
      href: "#main",
      onclick: (event) => {
        event.preventDefault();
        main.focus();
      },
    },
    "skip to the content",
  ),
  top_,
  main,
);
show();
