// Where two runs part: the step, the tensor, both curves around it, and the numbers.
// The tensor at which two runs part, around the step at which they do.
async function partingCurves(place, answer, base, name, sets, app) {
  const found = answer.near || answer.exact,
    slot = place.querySelector(".curves"),
    pair = [base, name].map((each) => sets.find((set) => set.name === each));
  if (!found || !slot || pair.includes(undefined)) return;
  const reach = 40,
    first = Math.max(0, found.step - reach),
    last = found.step + reach;
  const given = { tensor: found.tensor, kind: found.kind, stat: "l2", first, last, columns: 600 };
  const answers = await Promise.all(pair.map((set) => ask(set.name, "lines", given, app.signal)));
  const lines = answers
    .map((each, k) => ({ ...pair[k], ...even(each, unpacked(each.lines.l2)), columns: each.columns }))
    .filter((line) => line.columns);
  if (!lines.length) return;
  const cursor = newCursor(found.step);
  const ends = lines.map((line) => line.at(line.columns - 1));
  fill(
    slot,
    panel(
      `Norm of ${found.tensor}`,
      chart({
        height: 150,
        first: Math.min(...lines.map((line) => line.at(0))),
        last: Math.max(...ends, found.step + 1),
        lines,
        label: `norm of ${found.tensor} around step ${found.step}`,
        cursor,
      }),
      names(lines),
      `the mark is at step ${count(found.step)}`,
    ),
  );
}

function drawComparison(answer, state, title_, script) {
  const parting = (title, found, none, curves) =>
    h(
      "article",
      { class: "parting" },
      h("h3", {}, title),
      found
        ? [
            h(
              "p",
              {},
              `Step ${count(found.step)}, ${found.kind === "weight" && found.step ? `after the update of step ${count(found.step - 1)}, ` : ""}`,
              link(
                { page: "tensor", run: state.run, tensor: found.tensor, kind: found.kind, step: found.step },
                found.tensor,
              ),
              ` (${kindName(found.kind)}${found.call ? `, call ${found.call}` : ""}). ${plural(found.rows, "recorded tensor")} ${found.rows === 1 ? "differs" : "differ"} in that step.`,
            ),
            curves ? h("div", { class: "curves" }) : null,
            h(
              "details",
              {},
              h("summary", {}, "Its numbers"),
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
  const same = alike(answer.exact, answer.near);
  return [
    title_ && h("h2", {}, title_),
    h(
      "p",
      { class: "soft" },
      withOptions(
        `${plural(answer.steps.both, "step")} and ${plural(answer.tensors.both, "tensor")} are in both.${answer.traced ? "" : ` To see the operation that differs first, trace both as well: \`backsight run --record --trace steps=0,1 ${(script ?? "train").replace(/(\.py)?$/, ".py")}\`.`}`,
      ),
    ),
    ...(answer.steps.both && answer.tensors.both ? parted(answer, same, parting) : [nothingShared(answer)]),
    answer.traced ? operations(state) : null,
    only(answer.tensors.only_one, state.run),
    only(answer.tensors.only_other, state.with),
  ];
}
// The page of `backsight diff`, where both runs were traced: it is made when it is asked for.
function operations(state) {
  const at = `difference?${new URLSearchParams({ run: state.run, with: state.with })}`,
    place = h("div", {});
  return h(
    "details",
    {
      class: "operations",
      ontoggle: (event) =>
        event.target.open &&
        !place.firstChild &&
        fill(place, h("iframe", { src: at, title: "The first operation that differs", sandbox: "" })),
    },
    h("summary", {}, "The first operation that differs, with both lines and the graph"),
    h("p", { class: "soft" }, h("a", { href: at, target: "_blank", rel: "noopener" }, "open as a page of its own")),
    place,
  );
}
const nothingShared = (answer) =>
  h(
    "p",
    { class: "parting" },
    `They have no ${answer.tensors.both ? "step" : "tensor"} in common, so there is nothing to compare.`,
  );
function parted(answer, same, parting) {
  return [
    parting(
      "First bitwise difference",
      answer.exact,
      "There is none: every number is the same in both.",
      same || !answer.near,
    ),
    same
      ? h(
          "p",
          { class: "parting" },
          `It is also the first where a norm differs by more than ${num(100 * answer.tolerance)} %.`,
        )
      : parting(
          `First difference of a norm by more than ${num(100 * answer.tolerance)} %`,
          answer.near,
          answer.exact ? "There is none: the runs only differ by rounding." : "There is none.",
          true,
        ),
  ];
}
const alike = (a, b) => a && b && ["tensor", "kind", "step", "call"].every((key) => a[key] === b[key]);
