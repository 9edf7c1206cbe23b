// Every number of a run, a chart each: losses, learning rates, norms, times, memory, and whatever the program marked.
function metricsPage(state, info, app) {
  const body = h("div", { class: "stack cards" }, busy("reading")),
    below = h("div", { class: "under" }),
    bar = h("div", { class: "bar" }),
    given = { first: state.first, last: state.last, columns: LIVE ? 600 : 300, rank: state.rank };
  const kept = LIVE ? given : { columns: 300 };
  let sets = [];
  const draw = () => {
    if (!sets.length) return;
    const { answer } = sets[0],
      { wanted, any } = finder(state.find),
      there = [...Object.keys(answer.lines), ...Object.keys(answer.constants), ...Object.keys(answer.words)];
    const charts = curveCharts(sets, { state, app, cursor: newCursor(null), wanted });
    const steady = Object.entries(answer.constants).filter(([name]) => wanted(name)),
      words = Object.entries(answer.words).filter(([name]) => wanted(name));
    const choose = (name) => app.go({ ...state, find: name });
    if (charts.length) fill(body, charts);
    else if (any && !steady.length && !words.length)
      fill(body, noMatch(state.find, there, "the numbers of this run", choose));
    else if (!there.length)
      fill(body, empty("No numbers yet", "They appear with the first step; rec.mark(accuracy=...) adds your own."));
    else fill(body);
    const table = (title, rows) =>
      rows.length
        ? h(
            "article",
            { class: "parting" },
            h("h3", {}, title),
            h(
              "dl",
              {},
              rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
            ),
          )
        : null;
    fill(
      below,
      table(
        "The same in every step",
        steady.map(([name, value]) => [name, num(value, 6)]),
      ),
      table(
        "Words",
        words.map(([name, changes]) => [
          name,
          changes
            .slice(-6)
            .map(([step, value]) => `${said(value)} from step ${count(step)}`)
            .join(", "),
        ]),
      ),
    );
  };
  const first = { done: false };
  app.refreshed = async () => {
    const answer = await ask(state.run, "metrics", kept, app.signal);
    sets = [{ name: info.name, answer, ...lookOf(0) }];
    if (!first.done) fill(bar, curveControls({ state, app, sets: () => sets, again: draw, find: "a metric" }));
    first.done = true;
    draw();
  };
  app.refreshed().catch((error) => error.name === "AbortError" || fill(body, failed(error)));
  app.keys = (event) => event.key === "Escape" && app.go(unzoomed(state));
  return h("section", { class: "page" }, bar, body, below);
}
