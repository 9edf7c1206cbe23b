// The graph of a step, each box in the colour of what it holds at the chosen step; the slider plays the training.
const MOST_OF_IT = 0.9; // of what is recorded in a step at most: a module that is left out at times does not matter
const DIRECTIONS = { "": "as it fits", down: "top to bottom", right: "left to right" };
const SMALLEST = 0.8; // texts that are smaller than this share of their size are not read
const NO_HEAT = new Set(["mean", "min", "max"]); // signed: the picture shows how large something is

function graphPage(state, info, app) {
  const place = h("div", { class: "picture" }, busy("drawing the graph")),
    below = h("div", { class: "under" });
  const bar = h("div", { class: "bar" }),
    page = h("section", { class: "page graph" }, bar, place, below);
  let kind = info.kinds.includes(state.kind) ? state.kind : info.kinds[0];
  const stats = HEAT_STATS.filter((s) => info.stats.includes(s) && !NO_HEAT.has(s)).concat(info.metrics);
  let stat = stats.includes(state.stat) ? state.stat : kind === "output" || kind === "input" ? "std" : "l2";
  const go = (change) => app.go({ ...state, kind, stat, ...change });
  const asked = {
    open: state.open,
    fold: state.fold,
    direction: state.direction,
    inputs: state.inputs,
    tensor: LIVE ? state.tensor : undefined,
    kind: LIVE && state.tensor ? state.kind : undefined,
  };
  const given = () => ({
    ...{ kind, stat, first: state.first, last: state.last, columns: LIVE ? 600 : 300, rank: state.rank },
  });
  let player = null;
  app.refreshed = async () => {
    // The graph is that of one step: while a run is recorded only its colours are read again.
    let [picture, first, marks] = await Promise.all([
      player ? null : ask(state.run, "graph", asked, app.signal),
      info.kinds.length ? ask(state.run, "heatmap", given(), app.signal) : null,
      ask(state.run, "marks", { rank: state.rank }, app.signal),
    ]);
    // What is not in the picture colors nothing: of a generator without gradients, its weights are shown.
    const there = picture && info.kinds.filter((k) => picture.tensors[k]);
    if (there?.length && !state.kind && !there.includes(kind)) {
      kind = there[0];
      stat = stats.includes(state.stat) ? state.stat : stats.includes("l2") ? "l2" : stats[0];
      first = await ask(state.run, "heatmap", given(), app.signal);
    }
    const heat = player || state.kind ? first : await whereItBegan(first);
    if (player) {
      player.update(heat, marks);
      return;
    }
    if (picture.svg === null) {
      const why = picture.why
        ? `It was omitted: ${picture.why}.`
        : info.state === "recording" && !info.steps.count
          ? "It will appear after the first step."
          : "The graph is captured in the first recorded step; this run was recorded without it.";
      fill(bar);
      fill(below);
      fill(place, empty("This run has no graph", why));
      return;
    }
    const many = h("span", { class: "hint", role: "status" });
    const find = searchBox("a box", state.find, (text) => {
      Object.assign(state, { find: text });
      app.note({ ...state, kind, stat });
      many.textContent = player.search(text);
    });
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && state.find) many.textContent = player.next(event.shiftKey ? -1 : 1);
    });
    fill(bar, graphBar({ state, info, kind, stat, stats, picture, go }));
    player = drawGraph(place, below, picture, heat, marks, { state, info, kind, stat, go, app, find: [find, many] });
    if (state.find) many.textContent = player.search(state.find);
  };
  // Gradients that are not finite from a step on say nothing of where that began, if outputs are so from the same step on.
  const whereItBegan = async (heat) => {
    const broken = brokenAt(heat),
      was = [kind, stat];
    if (broken === null || !/grad/.test(kind) || !info.kinds.includes("output")) return heat;
    [kind, stat] = ["output", stats.includes("std") ? "std" : stat];
    if (holds("heatmap", given())) {
      const outputs = await ask(state.run, "heatmap", given(), app.signal);
      if (brokenAt(outputs) === broken) return outputs;
    }
    [kind, stat] = was;
    return heat;
  };
  app.left = () => player?.stop();
  app.keys = (event) => player?.key(event);
  app.refreshed().catch((error) => error.name === "AbortError" || fill(place, failed(error)));
  return page;
}

function graphBar({ state, info, kind, stat, stats, picture, go }) {
  const there = info.kinds.filter((k) => picture.tensors[k]),
    more = there.slice(5);
  return [
    segments(
      "kind",
      there.slice(0, 5).map((k) => [k, kindName(k)]),
      kind,
      (k) => go({ kind: k, stat: undefined }),
    ),
    more.length
      ? select(
          "",
          [["", "more kinds"], ...more.map((k) => [k, kindName(k)])],
          more.includes(kind) ? kind : "",
          (k) => k && go({ kind: k, stat: undefined }),
        )
      : null,
    select(
      "statistic",
      stats.map((s) => [s, STAT_NAMES[s] || s]),
      stat,
      (s) => go({ stat: s }),
    ),
    rankField(state, info, kind, (rank) => go({ rank })),
    LIVE
      ? select(
          "equal layers",
          [
            ["0", "one by one"],
            ["1", "as one box"],
          ],
          picture.fold ? "1" : "0",
          (fold) => go({ fold, open: undefined }),
        )
      : null,
    LIVE
      ? select("drawn", Object.entries(DIRECTIONS), state.direction || "", (direction) =>
          go({ direction: direction || undefined }),
        )
      : null,
    LIVE
      ? h(
          "button",
          {
            class: "toggle",
            title: "also show inputs and everything else that needs no gradient, as far as operations save it",
            "aria-pressed": String(Boolean(state.inputs)),
            onclick: () => go({ inputs: state.inputs ? undefined : "1" }),
          },
          "without gradient",
        )
      : null,
    state.open || state.tensor
      ? h("button", { onclick: () => go({ open: undefined, tensor: undefined }) }, state.tensor ? "unmark" : "reset")
      : null,
  ];
}

function drawGraph(place, below, picture, heat, marks, { state, info, kind, stat, go, app, find }) {
  const [svg, told] = imported(picture.svg),
    show = showing(stat),
    inside = picture.tensors[kind] || {},
    groups = new Set(picture.groups),
    moduleOf = new Map(
      info.modules.flatMap((m) => m.tensors.filter(([, k]) => k === kind).map(([name]) => [name, m.name])),
    );
  let values, bad, wide, rows, scale, first, stretch, lastSeen;
  const take = (found) => {
    values = found ? unpacked(found.values) : new Float32Array();
    bad = found ? unpacked(found.nonfinite) : new Uint8Array();
    wide = found ? found.columns : 0;
    rows = new Map(found ? found.tensors.map(([name], row) => [name, row]) : []);
    scale = scaleOfTensors(values, wide, rows.values(), stat);
    first = found ? found.first : 0;
    stretch = found ? found.stretch : 1;
    lastSeen = Math.min(first + wide * stretch - 1, info.steps.last ?? 0);
  };
  take(heat);
  const stepOf = (c) => first + c * stretch,
    saidOfStep = (c) => {
      const to = Math.min(stepOf(c) + stretch - 1, lastSeen);
      return to > stepOf(c) ? `steps ${count(stepOf(c))} to ${count(to)}` : `step ${count(stepOf(c))}`;
    },
    columnOf = (step) => clamp(Math.floor((step - first) / stretch), 0, Math.max(wide - 1, 0));
  const boxes = [...svg.querySelectorAll("[data-box]")].map((g) => ({
    g,
    index: g.dataset.box,
    title: [...g.children]
      .filter((c) => c.matches("text.name, text.op, text.solo"))
      .map((c) => c.textContent)
      .join("  "),
    names: inside[g.dataset.box] || [],
    group: groups.has(Number(g.dataset.box)),
    shapes: [...g.children].filter((c) => c.classList.contains("n")),
    number: numberOf(g),
  }));
  // Where the picture opens, and where what is not finite began to stay so: a training that ended in NaN opens there,
  // any other at its newest step with everything, as it may have been stopped within one, and as not all kinds are
  // recorded in each.
  let brokeAt = null;
  const opening = () => {
    const held = new Uint32Array(wide),
      wrong = new Uint32Array(wide);
    values.forEach((v, k) => {
      if (!Number.isNaN(v) || bad[k]) held[k % wide]++;
      if (bad[k]) wrong[k % wide]++;
    });
    const most = held.reduce((a, b) => Math.max(a, b), 0);
    let at = wide - 1;
    while (at > 0 && held[at] < MOST_OF_IT * most) at--;
    let c = at;
    while (c >= 0 && (wrong[c] || !held[c])) c--;
    while (c < at && !wrong[c + 1]) c++; // steps without anything say nothing
    brokeAt = most && c < at ? c + 1 : null;
    return brokeAt ?? Math.max(at, 0);
  };
  let opened = opening();
  let column = state.step === undefined ? opened : columnOf(Number(state.step)),
    timer = null;

  const found = (box, c) =>
    extremes(box.names, (name) => rows.get(name) * wide + c, { values, bad, moduleOf, stat, show });
  const zero = () => channels(ink("zero")),
    lit = ([r, g, b]) => 0.2126 * (r / 255) ** 2.2 + 0.7152 * (g / 255) ** 2.2 + 0.0722 * (b / 255) ** 2.2 > 0.19;
  const paint = () => {
    const held = new Map(boxes.map((box) => [Number(box.index), found(box, column)])),
      suspected = kind === "output" ? suspects(held, picture.links) : new Set();
    for (const box of boxes) {
      const { value, wrong, low, high, isRange } = held.get(Number(box.index)),
        t = TABLES[scale.kind],
        k = 3 * Math.round(scale.share(value) * 255);
      const rgb = wrong
        ? channels(ink("nonfinite"))
        : Number.isNaN(value)
          ? null
          : value === 0 && scale.log
            ? zero()
            : [t[k], t[k + 1], t[k + 2]];
      box.suspect = !wrong && suspected.has(Number(box.index));
      box.g.classList.toggle("suspect", box.suspect);
      if (box.number)
        box.number.textContent = wrong
          ? NOT_FINITE[wrong]
          : box.suspect
            ? "NaN?"
            : Number.isNaN(value)
              ? ""
              : isRange
                ? `${show(low[0])} to ${show(high[0])}`
                : show(value);
      for (const shape of box.shapes) shape.style.fill = rgb ? `rgb(${rgb})` : "";
      box.g.classList.toggle("onlight", rgb !== null && lit(rgb));
      box.g.classList.toggle("ondark", rgb !== null && !lit(rgb));
      box.g.setAttribute("aria-label", `${box.group ? "open " : ""}${saidOf(box).join(", ")}`);
    }
    slider.value = column;
    where.textContent = saidOfStep(column);
    const why = column === brokeAt ? "NaN or ∞ begins" : column === wide - 1 ? "the last" : "";
    slider.setAttribute("aria-valuetext", `${where.textContent}${why && `, ${why}`}`);
    if (why) where.append(h("span", { class: "soft" }, `, ${why}`));
    shared.move(stepOf(column));
  };
  let touched = Infinity; // browsers lead a tap beside something small to it
  svg.addEventListener("pointerdown", (event) => (touched = event.clientY), true);
  const saidOf = (box) => {
    const head = (told.get(box.index) || "").split("\n"),
      { value, wrong, low, high, isRange, modules } = found(box, column),
      what = STAT_NAMES[stat] || stat;
    return [
      head[0],
      !box.names.length
        ? `no ${kindName(kind)} in it`
        : isRange
          ? `${what} ${show(low[0])} (${low[1]}) to ${show(high[0])} (${high[1]}), the largest of each of ${count(modules)} modules`
          : `${what} ${Number.isNaN(value) ? (wrong ? "not finite" : "not recorded") : show(value)}: ${
              box.names.length > 1 ? `the largest of ${plural(box.names.length, "tensor")}, ` : ""
            }${high[1]}`,
      wrong ? `holds ${NOT_FINITE[wrong]}` : null,
      box.suspect
        ? "NaN or ∞ may arise here: what it returns is not recorded, and what it leads to is not finite"
        : null,
      ...head.slice(1, 4),
    ].filter(Boolean);
  };
  const toggle = (index) => {
    if (!LIVE) return;
    const open = new Set((state.open || "").split(",").filter(Boolean));
    open.has(index) ? open.delete(index) : open.add(index);
    go({ open: [...open].join(",") || undefined, step: stepOf(column) });
  };
  const openTensor = (name, of = kind) =>
    app.go({ page: "tensor", run: state.run, tensor: name, kind: of, step: stepOf(column), rank: state.rank });
  const press = (box) => {
    hush();
    if (box.group && LIVE) toggle(box.index);
    else select_(box);
  };
  const side = h("div", { class: "side" });
  let selected = null;
  const select_ = (box) => {
    selected?.g.classList.remove("selected");
    selected = box === selected ? null : box;
    selected?.g.classList.add("selected");
    const given = {
      state,
      kind,
      step: stepOf(column),
      inside: picture.tensors,
      code: picture.code,
      open: openTensor,
      app,
    };
    const close = () => select_(selected);
    const chosen = selected;
    // The panel takes room of the picture: what it is about stays in sight.
    setTimeout(() => chosen && chosen === selected && !isInSight(chosen.g, pane) && intoSight(chosen.g, pane), 50);
    fill(side, selected && selectedPanel(selected, told.get(selected.index), { ...given, close }));
  };
  // What is found is marked: first what is called so, then what has it in its title, then all else but numbers of nodes.
  // One of it comes into sight, the next one with Enter.
  let hits = [],
    hit = 0;
  const search = (text) => {
    const { wanted, any } = finder(text),
      isCalled = (box) =>
        box.title
          .toLowerCase()
          .split(/\s+/)
          .includes((text || "").trim().toLowerCase()),
      about = (box) => (told.get(box.index) || "").replace(/\bnodes? [\d, –-]+/gi, ""),
      near_ = (box) => (isCalled(box) ? 0 : wanted(box.title) ? 1 : 2);
    hits = any
      ? boxes.filter((box) => wanted([box.title, about(box), ...box.names].join(" ").replace(/\s+/g, " ")))
      : [];
    hits.sort((a, b) => near_(a) - near_(b));
    for (const box of boxes) box.g.classList.toggle("hit", hits.includes(box));
    return any ? goTo(0) : "";
  };
  const goTo = (k) => {
    if (!hits.length) return "0 found";
    hit = (k + hits.length) % hits.length;
    if ((zoom ?? fitting()) < SMALLEST) zoomBy(SMALLEST / (zoom ?? fitting()));
    intoSight(hits[hit].g, pane);
    return hits.length > 1 ? `${count(hit + 1)} of ${count(hits.length)}` : "1 found";
  };
  const button = (element, label, act, mayTell) => {
    for (const [key, value] of Object.entries({ tabindex: 0, role: "button", "aria-label": label }))
      element.setAttribute(key, value);
    element.classList.add("knob");
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      act(event);
    });
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.stopPropagation();
        act();
      }
    });
    element.addEventListener("mousemove", (event) => {
      event.stopPropagation();
      tell(event, ...mayTell());
    });
    element.addEventListener("mouseleave", hush);
    element.addEventListener("focus", () => {
      if (!element.matches(":focus-visible")) return;
      const r = element.getBoundingClientRect();
      tell({ clientX: r.right - 10, clientY: r.bottom - 8 }, ...mayTell());
    });
    element.addEventListener("blur", hush);
  };
  for (const box of boxes) {
    button(
      box.g,
      "",
      () => press(box),
      () => saidOf(box),
    );
    if (picture.here.includes(Number(box.index))) box.g.classList.add("here");
    for (const pill of box.g.querySelectorAll("g[data-node]")) {
      const leaves = spelledNumbers(pill.dataset.node)
          .map((n) => picture.leaves[n])
          .filter(Boolean),
        leaf = leaves[0];
      const of = leaf && (kind in leaf.kinds ? kind : "grad" in leaf.kinds ? "grad" : Object.keys(leaf.kinds)[0]);
      if (of)
        button(
          pill,
          leaf.name,
          (event) =>
            event && touched < pill.getBoundingClientRect().top ? press(box) : openTensor(leaf.kinds[of], of),
          () => [
            leaf.name,
            leaves.length > 1 ? `and ${plural(leaves.length - 1, "other")} like it` : null,
            `click for its ${kindName(of)}`,
          ],
        );
      if (leaves.some((each) => Object.values(each.kinds).includes(state.tensor))) pill.classList.add("here");
    }
  }
  for (const bar of svg.querySelectorAll("[data-group]"))
    if (LIVE)
      button(
        bar,
        "close this module",
        () => toggle(bar.dataset.group),
        () => ["close this module"],
      );

  let shared = newCursor(null);
  const stop = () => {
    clearInterval(timer);
    timer = null;
    playing.textContent = "▶";
    playing.setAttribute("aria-label", "play the training");
  };
  const move = (c) => {
    column = clamp(c, 0, Math.max(wide - 1, 0));
    paint();
  };
  const settle = () => app.note({ ...state, kind, stat, step: stepOf(column) });
  const play = () => {
    if (timer) {
      stop();
      settle();
      return;
    }
    if (column >= wide - 1 || column === opened) move(0);
    playing.textContent = "⏸";
    playing.setAttribute("aria-label", "pause");
    timer = setInterval(
      () => {
        if (!svg.isConnected || column >= wide - 1) {
          stop();
          if (svg.isConnected) settle();
        } else move(column + 1);
      },
      clamp(12000 / Math.max(wide, 1), 33, 350),
    );
  };
  const playing = h(
    "button",
    { class: "play", "aria-label": "play the training", disabled: wide < 2, onclick: play },
    "▶",
  );
  const slider = h("input", {
    type: "range",
    min: 0,
    max: Math.max(wide - 1, 0),
    value: column,
    "aria-label": "step",
    disabled: wide < 2,
    oninput: () => {
      stop();
      move(Number(slider.value));
    },
    onchange: settle,
    onkeydown: (event) => {
      if (event.key === " ") {
        event.preventDefault();
        play();
      }
    },
  });
  const where = h("output", { class: "where" });
  const key = (event) => {
    if (
      event.target.closest("button, .knob") &&
      event.key === " " &&
      event.target !== playing &&
      event.target.closest("button")
    )
      return;
    if (event.key === " ") {
      event.preventDefault();
      play();
    }
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by && event.target !== slider) {
      event.preventDefault();
      stop();
      move(column + by * (event.shiftKey ? 10 : 1));
      settle();
    }
  };

  const pane = h("div", { class: "pane", tabindex: 0, role: "group", "aria-label": "the graph" }, svg),
    natural = [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
  let zoom = null;
  // All of it where that can be read; else what is scrolled anyway is as large as the page is wide.
  const fitting = () => {
    const [across, down] = [(pane.clientWidth - 2) / natural[0], (pane.clientHeight - 2) / natural[1]],
      isWhole = !picture.here.length && Math.min(across, down) >= SMALLEST;
    return clamp(isWhole ? Math.min(across, down) : across, SMALLEST, 1);
  };
  const whole = () =>
    clamp(Math.min((pane.clientWidth - 2) / natural[0], (pane.clientHeight - 2) / natural[1]), 0.2, 1);
  const size = () => {
    const k = zoom ?? fitting();
    svg.style.width = `${natural[0] * k}px`;
    svg.style.height = `${natural[1] * k}px`;
  };
  const zoomBy = (by) => {
    zoom = by === null ? whole() : clamp((zoom ?? fitting()) * by, 0.2, 3);
    size();
  };
  const zooms = h(
    "div",
    { class: "zooms" },
    [
      ["−", "smaller", 0.8],
      ["+", "larger", 1.25],
      ["fit", "fit", null],
    ].map(([text, label, by]) => h("button", { "aria-label": label, onclick: () => zoomBy(by) }, text)),
  );
  fill(
    place,
    h(
      "div",
      { class: "beside" },
      h("div", { class: "shown" }, h("div", { class: "head" }, where, find, zooms), pane),
      side,
    ),
  );
  new ResizeObserver(size).observe(pane);
  size();
  const under = h("div", { class: "under" });
  const drawUnder = (tags) => {
    const { lines } = tags;
    shared = newCursor(null);
    const name = lossOf(tags);
    const line = name && wide && { name, color: "line3", ...uneven(lines[name].steps, unpacked(lines[name].values)) };
    const loss =
      line &&
      chart({
        height: 84,
        edge: { left: innerWidth > 720 ? 130 : 88, right: 8, top: 6, bottom: 20 },
        first,
        last: lastSeen,
        lines: [line],
        nonfinite: spoilt(line),
        label: `${name} over the steps; click for a step`,
        cursor: shared,
        pick: (step) => {
          stop();
          move(columnOf(step));
          settle();
        },
      });
    fill(
      under,
      loss ? strip(name, loss) : null,
      h(
        "div",
        { class: "notes" },
        wide ? legend(scale, STAT_NAMES[stat] || stat, show) : h("span", { class: "soft" }, "no step recorded yet"),
        brokeAt === null
          ? null
          : h(
              "button",
              { class: "way", onclick: () => (stop(), move(brokeAt), settle()) },
              `NaN or ∞ from ${saidOfStep(brokeAt)} on`,
            ),
        h("span", { class: "soft" }, `operations as in step ${count(picture.step)}, colors as in the chosen step`),
        leftOut(info, picture).map((said) => h("b", {}, said)),
      ),
    );
  };
  // What has come meanwhile: who stood where it opens, or at the last step, goes on with it; who did not stays there.
  const update = (found, tags) => {
    const follows = column === opened,
      last = column >= wide - 1,
      step = stepOf(column);
    take(found);
    opened = opening();
    slider.max = Math.max(wide - 1, 0);
    slider.disabled = playing.disabled = wide < 2;
    drawUnder(tags);
    move(follows ? opened : last ? wide - 1 : columnOf(step));
  };
  fill(below, h("div", { class: "player" }, playing, slider), under);
  drawUnder(marks);
  paint();
  const marked = svg.querySelector(".here");
  if (marked) setTimeout(() => intoSight(marked, pane));
  return { stop, key, update, search, next: (by) => goTo(hit + by) };
}
