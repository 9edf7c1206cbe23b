// The page of a code, as `backsight explain` shows it; links to other codes open their pages.
async function explained(run, code) {
  const way = (target, shown) => {
    const other = /^(BS\d{3})\.md$/.exec(target);
    if (other) return h("button", { class: "way", onclick: () => (dialog.close(), explained(run, other[1])) }, shown);
    return /^https:\/\//.test(target) ? h("a", { href: target, target: "_blank", rel: "noopener" }, shown) : shown;
  };
  const place = h("div", { class: "page-of-code" }, busy("reading")),
    dialog = opened(code, "", place);
  try {
    const { text } = await ask(run, "explain", { code });
    fill(place, markdown(text, way));
  } catch (error) {
    fill(place, failed(error));
  }
}
// What the rules found, the gravest first, each with a link to the tensor and the step that show it.
const LONG_RUN = 40000;
// A line does not break within `--nonfinite`, `5 %` or `1e-07`, and what stands in backticks is code. What is to be read and
// not to be pasted has its numbers as charts have them.
const PARTS = /(`[^`]+`|--[a-z][\w-]*|(?<![\w.=]|\w\()-?\d[\d.]*(?:e[-+]\d+)?(?: %)?)/;
const asRead = (number) => (number.includes("e") ? num(Number(number), 4) : number.replace("-", "−"));
const withOptions = (text, read = false) =>
  text.split(PARTS).map((part, k) => {
    if (!(k % 2)) return part;
    if (part[0] === "`") return h("code", {}, part.slice(1, -1));
    return h("span", { class: "option" }, read && /^-?\d/.test(part) ? asRead(part) : part);
  });
// A line of evidence; of a statement its place and its text, and a mark where it is the one that the finding is about.
function evidenceOf(line, statement) {
  if (!statement) return h("p", { class: "evidence" }, withOptions(line, true));
  const [place, code, says, isCulprit] = statement;
  return h(
    "p",
    { class: `evidence statement${isCulprit ? " culprit" : ""}` },
    h("span", { class: "sign", "aria-label": isCulprit ? "culprit:" : null }, isCulprit ? ">" : ""),
    h("span", { class: "soft" }, place, "  "),
    h("code", { class: "text" }, breaking(code)),
    h("span", { class: "says" }, withOptions(says, true)),
  );
}
const WAIT = 400; // ms
async function searched(run, signal, progress = () => {}) {
  for (;;) {
    const answer = await ask(run, "findings", LIVE ? { patience: WAIT } : {}, signal);
    if (!answer.pending) return answer;
    progress(...answer.pending);
  }
}
function findingsPage(state, info, app) {
  const waiting = busy("auditing the run"),
    place = h("div", { class: "findings" }, waiting);
  const progress = (read, of) =>
    fill(
      waiting,
      h("progress", { max: of || 1, value: read, "aria-label": "tensors checked" }),
      of
        ? `looked through ${count(read)} of ${plural(of, "tensor")}, ${plural(info.steps.count, "step")}`
        : "auditing the run",
    );
  app.refreshed = async () => {
    const answer = await searched(state.run, app.signal, progress);
    app.found(state, info, answer);
    if (!answer.findings.length) {
      fill(place, empty("Nothing found", `Checked ${answer.looked_at || "the whole run"}.`));
      return;
    }
    const counts = ["error", "warning", "note"]
      .map((s) => [s, answer.findings.filter((f) => f.severity === s).length])
      .filter(([, n]) => n);
    fill(
      place,
      h(
        "p",
        { class: "soft" },
        `${counts.map(([s, n]) => plural(n, s)).join(", ")}${answer.looked_at ? ` in ${answer.looked_at}` : ""}`,
      ),
      answer.findings.map((finding) =>
        h(
          "article",
          { class: `finding ${finding.severity}` },
          h(
            "header",
            {},
            h("span", { class: "severity" }, finding.severity),
            LIVE
              ? h(
                  "button",
                  { class: "code way", title: "what it means", onclick: () => explained(state.run, finding.code) },
                  finding.code,
                )
              : h("span", { class: "code" }, finding.code),
            finding.exact ? null : h("span", { class: "soft" }, "an inference"),
          ),
          h("h3", {}, withOptions(finding.title, true)),
          finding.evidence.map((line, k) => evidenceOf(line, finding.statements[k])),
          finding.source && !finding.statements.some((each) => each?.[3])
            ? h("p", { class: "soft" }, "at ", codeLine(finding.source, answer.code))
            : null,
          finding.lines.length
            ? h(
                "p",
                { class: "see" },
                "Computed at: ",
                finding.lines.map((line) => h("span", { class: "at" }, codeLine(line, answer.code))),
              )
            : null,
          finding.fix ? h("p", { class: "fix" }, h("b", {}, "Fix: "), withOptions(finding.fix)) : null,
          finding.tensors.length
            ? h(
                "p",
                { class: "see" },
                "See ",
                finding.tensors.slice(0, 4).map(([tensor, kind], at) => [
                  at ? ", " : "",
                  link(
                    {
                      page: "tensor",
                      run: state.run,
                      tensor,
                      kind,
                      step: finding.step === null ? undefined : finding.step,
                    },
                    `${tensor} (${kindName(kind)})`,
                  ),
                ]),
                finding.step !== null ? ` at step ${count(finding.step)}` : "",
              )
            : null,
        ),
      ),
    );
  };
  app.refreshed().catch((error) => error.name === "AbortError" || fill(place, failed(error)));
  return h("section", { class: "page narrow" }, place);
}
