// Time by task.
{
  const box = view("time");
  const weight = totalTime ? (task) => task.nanoseconds : (task) => task.bytes_read + task.bytes_written;
  const whole = sum(tasks, weight);
  const show = totalTime ? timeText : bytesText;
  if (!totalTime) box.append(note("No times yet: they come from the second run with the same sizes. Shown are bytes."));

  const kinds = [...new Set(tasks.map((task) => task.kind))];
  kinds.sort((a, b) => sum(tasks.filter((t) => t.kind === b), weight) - sum(tasks.filter((t) => t.kind === a), weight));
  const width = 1270;
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

  const order = tasks.map((_, index) => index).sort((a, b) => weight(tasks[b]) - weight(tasks[a]));
  const most = Math.max(...tasks.map(weight), 1);
  const rows = order.map((index) => {
    const task = tasks[index];
    const bytes = task.bytes_read + task.bytes_written;
    const bar = element("span", { class: "bar", style: `width:${140 * weight(task) / most}px;background:${color(task.kind)}` });
    return [
      ["number", `${index}`],
      ["name", task.name],
      bar,
      ["number", show(weight(task))],
      ["number", percent(weight(task), whole)],
      ["number", bytesText(bytes)],
      ["number", task.nanoseconds ? `${(bytes / task.nanoseconds).toFixed(1)} GB/s` : "–"],
      ["line", place(task.source)],
      ["source", task.reason],
    ];
  });
  const heads = [["number", "task"], "name", "", ["number", totalTime ? "time" : "traffic"], ["number", "share"], ["number", "bytes"],
    ["number", "rate"], "line", "why it is not generated code"];
  box.append(longTable(heads, rows, 24));
}
