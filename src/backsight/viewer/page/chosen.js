// What was chosen for runs and is not the same in all of them, as `lr 0.1`: by it people know one run from another.
const MOST_APART = 3;

// Whether a value of the one list stands beside the same of the other wherever it stands.
const isTold = (by, values) => by.every((value, k) => values[by.indexOf(value)] === values[k]);

// An argument without a name, which is called as what it is that the program set to the same numbers.
const isPlace = (name) => /^argument \d+$/.test(name);

// lists: [[name, value], ...] of each run. Returns for each run a list of [name, value] of the same few names.
function chosenApart(lists) {
  const maps = lists.map((list) => new Map(list)),
    names_ = [...new Set(lists.flatMap((list) => list.map(([name]) => name)))],
    valuesOf = (name) => maps.map((map) => said(map.get(name))),
    numbersOf = (name) => maps.map((map) => asChosen(map.get(name))).join(),
    apart = [];
  for (const name of names_) {
    const values = valuesOf(name),
      partition = values.map((value) => values.indexOf(value)).join(),
      isPartial = values.includes("–");
    // What an optimizer is set to often follows from an argument, which stands before it, and says nothing new; nor does
    // what only some optimizers have.
    const follows = (each) => each.partition === partition || (isPartial && isTold(each.values, values));
    const placed = apart.find((each) => isPlace(each.name) && numbersOf(each.name) === numbersOf(name));
    if (placed && !numbersOf(name).includes("NaN")) Object.assign(placed, { name, values });
    if (new Set(values).size > 1 && !apart.some(follows)) apart.push({ name, partition, values });
  }
  return maps.map((_, k) => apart.slice(0, MOST_APART).map(({ name, values }) => [name, values[k]]));
}
const isNumber = (value) => /^[-−(]?[\d.]/.test(value);
const toldApart = (pairs) =>
  pairs
    .filter(([, value]) => value !== "–")
    .map(([name, value]) => `${name}${isNumber(value) ? (/\d$/.test(name) ? "\u00a0=" : "") : ":"}\u00a0${value}`)
    .join(", ");
const isChosen = (group, name) =>
  group === "arguments" || (group === "optimizer" && !name.split(" ").includes("tensors"));
