// What a run is: where it was made, with what, and what else happened.
function aboutPage(state, info) {
  const facts = [
    ["state", info.state],
    ["started", moment(info.created)],
    [
      "steps",
      info.steps.count
        ? `${count(info.steps.count)} recorded, ${count(info.steps.first)} to ${count(info.steps.last)}`
        : "none",
    ],
    ["tensors", count(info.modules.reduce((n, m) => n + m.tensors.length, 0))],
    ["ranks", info.ranks.length === info.world ? String(info.world) : `${info.ranks.length} of ${info.world}`],
    ["size", bytes(info.bytes)],
    ["damage", info.damage],
  ];
  const list = (title, rows) =>
    rows.length
      ? h(
          "article",
          { class: "parting" },
          h("h3", {}, title),
          h(
            "dl",
            {},
            rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, said(value))]),
          ),
        )
      : null;
  const news = info.events.map((each) => [
    `${each.step === null ? moment(each.time) : `step ${count(each.step)}`}${info.world > 1 ? `, rank ${each.rank}` : ""}`,
    `${each.event}: ${Object.entries(each.details || {})
      .map(([k, v]) => `${k} ${said(v)}`)
      .join(", ")}`,
  ]);
  return h(
    "section",
    { class: "page narrow" },
    list(info.name, facts),
    list("Settings of the recording", Object.entries(info.config)),
    list(
      "Surroundings",
      Object.entries(info.environment).map(([name, value]) => [
        name,
        name === "command" && Array.isArray(value) ? value.join(" ") : value,
      ]),
    ),
    list("Other events", news),
  );
}
