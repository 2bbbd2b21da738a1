// Time by task.
show("time", (box, width) => {
  const weight = totalTime ? (task) => task.nanoseconds : (task) => task.bytes_read + task.bytes_written;
  const whole = sum(tasks, weight);
  const show = totalTime ? timeText : bytesText;
  if (!totalTime) box.append(note("No times yet: they come from the second run with the same sizes on. Shown are bytes."));

  const kinds = [...new Set(tasks.map((task) => task.kind))];
  kinds.sort((a, b) => sum(tasks.filter((t) => t.kind === b), weight) - sum(tasks.filter((t) => t.kind === a), weight));
  const picture = drawing(width, 30);
  let x = 0;
  for (const kind of kinds) {
    const own = tasks.filter((task) => task.kind === kind);
    const part = whole ? width * sum(own, weight) / whole : width * own.length / tasks.length;
    const bar = shape("rect", { x, y: 0, width: Math.max(part - 1, 0.5), height: 26, rx: 3, fill: color(kind), class: "mark" });
    picture.append(tipped(bar, `${kind}: ${counted(own.length, "task")}, ${show(sum(own, weight))}, ${percent(sum(own, weight), whole)}`));
    x += part;
  }
  const names = Object.fromEntries(kinds.map((kind) => {
    const own = tasks.filter((task) => task.kind === kind);
    return [kind, `${kind}: ${counted(own.length, "task")}, ${show(sum(own, weight))}, ${percent(sum(own, weight), whole)}`];
  }));
  box.append(picture, legend(kinds, names));

  const python = tasks.filter((task) => task.python);
  if (python.length) {
    box.append(note(`${counted(python.length, "task")} of ${tasks.length} ${python.length === 1 ? "runs" : "run"} Python, `
      + `${percent(sum(python, weight), whole)}: ${[...new Set(python.map((task) => task.name))].join(", ")}. `
      + "They run one at a time, also on several streams, because Python code holds the interpreter's lock (GIL)."));
  }

  // A rate, and how much of the machine's that is.
  const rate = (count, time, unit, part) => time && count
    ? element("span", { class: "rate" }, `${count / time >= 100 ? Math.round(count / time) : (count / time).toFixed(1)} ${unit}`, element("small", {}, part === null ? "caches" : percent(part, 1)))
    : "";
  const explained = tasks.some((task) => task.reason);
  const order = tasks.map((_, index) => index).sort((a, b) => weight(tasks[b]) - weight(tasks[a]));
  const most = Math.max(...tasks.map(weight), 1);
  const rows = order.map((index) => {
    const task = tasks[index];
    const bytes = task.bytes_read + task.bytes_written;
    const bar = element("span", { class: "bar", style: `width:${100 * weight(task) / most}%;background:${color(task.kind)}` });
    return [
      ["number", `${index}`],
      ["name", task.name],
      ["bars", bar],
      ["number", show(weight(task))],
      ["number soft", task.nanoseconds ? spread(task) : ""],
      ["number", percent(weight(task), whole)],
      ["number", bytesText(bytes)],
      ["number", rate(bytes, task.nanoseconds, "GB/s", task.used[0])],
      ["number", rate(task.operations, task.nanoseconds, "GFLOP/s", task.used[1])],
      ["line", origin(task)],
      ...(explained ? [["source", task.reason]] : []),
    ];
  });
  const heads = [["number", "task"], "name", "", ["number", totalTime ? "time" : "traffic"], ["number", totalTime ? "least to most" : ""], ["number", "share"],
    ["number", "bytes"], ["number", "memory"], ["number", "arithmetic"], "module and line", ...(explained ? ["why it is not generated code"] : [])];
  box.append(longTable(heads, rows, width < 600 ? 8 : 24));
  const { bytes, f32, bf16, i8 } = facts.machine;
  box.append(note(`Percentages under rates are of what this machine came to when the page was written: ${bytes.toFixed(1)} GB/s read from memory, and products of `
    + `${Math.round(f32)} GFLOP/s in f32, ${Math.round(bf16)} in bf16, ${Math.round(i8)} in i8. A task has no percentage of memory if its operands may be in caches.`));
});
