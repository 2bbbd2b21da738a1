// What fused and what nearly did, each with the condition that failed and the line of the program.
show("fusion", (box, width) => {

  function part(title, heads, rows, nothing) {
    box.append(element("h3", {}, title));
    box.append(rows.length ? longTable(heads, rows, 20) : element("p", { class: "none" }, nothing));
  }

  // Equal lines once, with their count.
  function grouped(items, key) {
    const groups = new Map();
    for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
    return [...groups.values()];
  }

  const fused = tasks.map((task, index) => ({ task, index })).filter(({ task }) => task.origin.includes(", "));
  fused.sort((a, b) => b.task.saved_bytes - a.task.saved_bytes);
  part("Operators in one task", [["number", "task"], "name", "operators", ["number", "saves"], "module and line"],
    fused.map(({ task, index }) => [["number", `${index}`], ["name", task.name], ["name", task.origin],
      ["number", task.saved_bytes ? bytesText(task.saved_bytes) : "–"], ["line", origin(task)]]),
    "Each task stands for one operator.");

  part("Replaced patterns", ["rule", "went", "came", "line"],
    facts.replacements.map((made) => [["name", made.rule], ["name", made.removed.join(", ")], ["name", made.added.join(", ")], ["line", place(made.source)]]),
    "No replacement rule matched.");

  part("Patterns that nearly matched", ["rule", "at", "what failed", "line"],
    facts.near_misses.map((miss) => [["name", miss.rule], ["name", miss.node], miss.reason, ["line", place(miss.source)]]),
    "None.");

  const apart = grouped(facts.left_apart, (pair) => `${pair.producer}>${pair.consumer}>${pair.reason}>${pair.source}`);
  part("Operators that nearly ran together", [["number", "times"], "operators", "what failed", ["number", "loaded again"], "line"],
    apart.map((pairs) => [["number", `${pairs.length}`], ["name", `${pairs[0].producer} → ${pairs[0].consumer}`], pairs[0].reason,
      ["number", bytesText(sum(pairs, (pair) => pair.bytes))], ["line", place(pairs[0].source)]]),
    "None.");

  const remarks = grouped(facts.remarks, (remark) => `${remark.pass}>${remark.message}>${remark.source}`);
  part("What graph passes say", [["number", "times"], "pass", "at", "remark", "line"],
    remarks.map((same) => [["number", `${same.length}`], ["name", same[0].pass], ["name", [...new Set(same.map((remark) => remark.node))].join(", ")],
      same[0].message, ["line", place(same[0].source)]]),
    "Nothing.");

  const reasons = grouped(tasks.filter((task) => task.reason), (task) => `${task.name}>${task.reason}`);
  part("What is not generated code", [["number", "tasks"], "name", "why", ["number", "time"], "line"],
    reasons.map((same) => [["number", `${same.length}`], ["name", same[0].name], same[0].reason,
      ["number", totalTime ? timeText(sum(same, (task) => task.nanoseconds)) : "–"], ["line", [...new Set(same.map((task) => place(task.source)))].slice(0, 3).join(", ")]]),
    "All tasks are generated code or precompiled.");

  if (facts.partitions.length) {
    part("What is not captured", ["operator", "runs as", "why", "line"],
      facts.partitions.map((p) => [["name", p.target], p.runs_as, p.reason, ["line", place(p.source)]]), "");
  }
});
