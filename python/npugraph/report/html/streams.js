// Streams over time: a row for each stream, and arrows from tasks to those of other streams that wait for them.
show("streams", (box, width) => {
  const run = facts.runs[Math.floor((facts.runs.length - 1) / 2)];
  const timed = run !== undefined;
  if (!timed) box.append(note("No times yet: tasks stand in the order of the program, all equally long."));
  const spans = tasks.map((task, index) => ({
    index,
    kind: task.kind,
    stream: task.stream,
    begin: timed ? run.tasks[index][0] : index,
    end: timed ? run.tasks[index][0] + run.tasks[index][1] : index + 1,
  }));
  const streams = [...new Set(tasks.map((task) => task.stream))].sort((a, b) => a - b);
  const end = timed ? run.nanoseconds : tasks.length;
  const left = width < 600 ? 62 : 90;
  const rowHeight = 34;
  const height = streams.length * rowHeight + 26;
  const at = (time) => left + (width - left) * time / end;
  const picture = drawing(width, height);
  for (const tick of ticks(end, width / 150)) {
    picture.append(shape("line", { x1: at(tick), x2: at(tick), y1: 0, y2: height - 22, class: "axis" }),
      shape("text", { x: at(tick), y: height - 6, "text-anchor": tick === 0 ? "start" : at(tick) > width - 30 ? "end" : "middle", class: "soft" }, timed ? timeText(tick) : `task ${Math.round(tick)}`));
  }
  streams.forEach((stream, row) => {
    const own = spans.filter((span) => span.stream === stream);
    const busy = sum(own, (span) => span.end - span.begin);
    picture.append(shape("text", { x: 0, y: row * rowHeight + 16 }, `stream ${stream}`),
      shape("text", { x: 0, y: row * rowHeight + 29, class: "soft" }, `${percent(busy, end)} busy`));
    for (const span of own) {
      const bar = shape("rect", {
        x: at(span.begin), y: row * rowHeight + 4, width: Math.max(at(span.end) - at(span.begin) - 0.5, 0.7), height: rowHeight - 10,
        rx: 2, fill: color(span.kind), class: "mark task", "data-task": span.index,
      });
      picture.append(tipped(bar, () => taskTip(span.index)));
    }
  });
  const middle = (span) => streams.indexOf(span.stream) * rowHeight + rowHeight / 2 - 1;
  for (const span of spans) {
    for (const other of tasks[span.index].waits) {
      const from = spans[other];
      const [x, y, toX, toY] = [at(from.end), middle(from), at(span.begin), middle(span)];
      const bend = Math.max((toX - x) / 2, 12);
      const arrow = shape("path", {
        d: `M${x},${y}C${x + bend},${y} ${toX - bend},${toY} ${toX},${toY}m-6,-4l6,4l-6,4`, class: "wire wait",
        "data-from": other, "data-to": span.index,
      });
      picture.append(tipped(arrow, `task ${span.index} waits for task ${other}`));
    }
  }
  box.append(picture, legend([...new Set(tasks.map((task) => task.kind))]));
});
