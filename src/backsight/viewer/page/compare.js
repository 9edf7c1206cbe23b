// Two runs: where they part first, to the bit and then by more than rounding.
function comparePage(state, info, app) {
  const place = h("div", {}, busy("reading"));
  const page = h("section", { class: "page narrow" }, place);
  askRuns(app.signal)
    .then(async (answer) => {
      const others = answer.runs.map((run) => run.name).filter((name) => name !== state.run);
      const chooser = h(
        "div",
        { class: "bar" },
        h("h2", {}, state.run),
        others.length
          ? select("beside", [["", "choose a run"], ...others.map((n) => [n, n])], state.with || "", (name) =>
              app.go({ ...state, with: name || undefined }),
            )
          : null,
      );
      const found = h("div", {});
      fill(place, chooser, found);
      if (!others.length) {
        fill(found, empty("There is no other run in this folder"));
        return;
      }
      if (!state.with) {
        fill(
          found,
          empty(
            "Choose the run to compare with",
            "The first step and tensor at which two runs part tells what made them different.",
          ),
        );
        return;
      }
      fill(found, busy("comparing"));
      fill(found, drawComparison(await ask(state.run, "compare", { with: state.with }, app.signal), state));
    })
    .catch((error) => error.name === "AbortError" || fill(place, failed(error)));
  return page;
}

function drawComparison(answer, state) {
  const parting = (title, found, none) =>
    h(
      "article",
      { class: "parting" },
      h("h3", {}, title),
      found
        ? [
            h(
              "p",
              {},
              `Step ${count(found.step)}, `,
              link(
                { page: "tensor", run: state.run, tensor: found.tensor, kind: found.kind, step: found.step },
                found.tensor,
              ),
              ` (${KIND_NAMES[found.kind] || found.kind}${found.call ? `, call ${found.call}` : ""}). ${plural(found.rows, "row")} of that step ${found.rows === 1 ? "differs" : "differ"} within the steps read.`,
            ),
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
                    ["", state.run, state.with].map((t) => h("th", {}, t)),
                  ),
                ),
                h(
                  "tbody",
                  {},
                  found.values.map(([name, a, b]) =>
                    h(
                      "tr",
                      { class: a === b ? "soft" : "" },
                      h("td", {}, STAT_NAMES[name] || name),
                      h("td", {}, num(a, 9)),
                      h("td", { class: a === b ? "" : "bad" }, num(b, 9)),
                    ),
                  ),
                ),
              ),
            ),
          ]
        : h("p", { class: "soft" }, none),
    );
  const only = (list, name) =>
    list.length
      ? h(
          "p",
          {},
          h("b", {}, `Only in ${name}: `),
          list
            .slice(0, 12)
            .map(([n, k]) => `${n} (${k})`)
            .join(", "),
          list.length > 12 ? `, and ${list.length - 12} more` : "",
        )
      : null;
  return [
    h(
      "p",
      { class: "soft" },
      `${plural(answer.steps.both, "step")} and ${plural(answer.tensors.both, "tensor")} are in both.`,
    ),
    parting("First difference, to the bit", answer.exact, "There is none: every number of both is the same."),
    alike(answer.exact, answer.near)
      ? h(
          "p",
          { class: "parting" },
          `It is also the first in which a norm differs by more than ${num(100 * answer.tolerance)} %.`,
        )
      : parting(
          `First difference of a norm by more than ${num(100 * answer.tolerance)} %`,
          answer.near,
          answer.exact ? "There is none: the runs differ by rounding only." : "There is none.",
        ),
    answer.settings.length
      ? h(
          "article",
          { class: "parting" },
          h("h3", {}, "Settings and surroundings that differ"),
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
                  ["", state.run, state.with].map((t) => h("th", {}, t)),
                ),
              ),
              h(
                "tbody",
                {},
                answer.settings.map(([name, a, b]) =>
                  h("tr", {}, h("td", {}, name), h("td", {}, said(a)), h("td", {}, said(b))),
                ),
              ),
            ),
          ),
        )
      : null,
    only(answer.tensors.only_one, state.run),
    only(answer.tensors.only_other, state.with),
  ];
}
const alike = (a, b) => a && b && ["tensor", "kind", "step", "call"].every((key) => a[key] === b[key]);
const said = (value) => {
  if (value === null || value === undefined || value === "") return "–";
  if (Array.isArray(value) && value.every((each) => typeof each !== "object"))
    return value.length ? value.join(", ") : "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};
