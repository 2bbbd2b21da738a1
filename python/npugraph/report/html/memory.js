// Memory over time: how much lives at each task, and where it lies in the arena.
show("memory", (box, width) => {
  const buffers = facts.buffers.filter((buffer) => buffer.bytes > 0);
  const steps = tasks.length + 1; // the last one: results are handed out
  const left = width < 600 ? 62 : 90;
  const at = (step) => left + (width - left) * step / steps;
  const kinds = ["arena", "workspace", "heap", "output"];
  const names = { arena: "arena", workspace: "workspaces of tasks", heap: "taken over from operators", output: "results" };
  const life = (buffer) => {
    const from = buffer.first_task < tasks.length ? `task ${buffer.first_task}, ${tasks[buffer.first_task].name}` : "the end";
    const to = buffer.last_task < tasks.length ? `task ${buffer.last_task}, ${tasks[buffer.last_task].name}` : "the end";
    return `${buffer.name}: ${bytesText(buffer.bytes)}, ${names[buffer.kind]}\nfrom ${from}\nto ${to}`;
  };

  function axes(picture, height, most, unit) {
    for (const tick of most > 0 ? ticks(most, 4, 1024) : [0]) {
      const y = height - (most > 0 ? height * tick / most : 0);
      picture.append(shape("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }),
        shape("text", { x: left - 8, y: y + 4, "text-anchor": "end", class: "soft" }, unit(tick)));
    }
    for (const tick of ticks(steps, width / 120)) {
      if (tick !== Math.round(tick) || tick >= tasks.length) continue;
      picture.append(shape("text", { x: at(tick), y: height + 16, class: "soft" }, `task ${tick}`));
    }
  }

  function alive(kind) {
    const change = new Array(steps + 1).fill(0);
    for (const buffer of buffers) {
      if (buffer.kind !== kind) continue;
      change[buffer.first_task] += buffer.bytes;
      change[Math.min(buffer.last_task, steps - 1) + 1] -= buffer.bytes;
    }
    let live = 0;
    return change.slice(0, steps).map((bytes) => (live += bytes));
  }

  function drawLive() {
    const height = 180;
    const picture = drawing(width, height + 24);
    const used = kinds.filter((kind) => buffers.some((buffer) => buffer.kind === kind));
    const below = new Array(steps).fill(0);
    const layers = used.map((kind) => alive(kind).map((bytes, step) => [below[step], (below[step] += bytes)]));
    const most = Math.max(...below);
    axes(picture, height, most, bytesText);
    const y = (bytes) => height - height * bytes / most;
    layers.forEach((layer, index) => {
      const top = layer.map(([, high], step) => `L${at(step)},${y(high)}L${at(step + 1)},${y(high)}`).join("");
      const back = layer.map(([low], step) => `L${at(step + 1)},${y(low)}L${at(step)},${y(low)}`).reverse().join("");
      picture.append(shape("path", { d: `M${at(0)},${y(0)}${top}${back}Z`, fill: color(used[index]), "fill-opacity": 0.85, class: "live" }));
    });
    below.forEach((bytes, step) => {
      const cover = shape("rect", { x: at(step), y: 0, width: at(step + 1) - at(step), height, fill: "transparent" });
      const where = step < tasks.length ? `task ${step}: ${tasks[step].name}` : "results are handed out";
      picture.append(tipped(cover, `${where}\n${bytesText(bytes)} live${bytes === most ? ", the most" : ""}`));
    });
    box.append(picture, legend(used, names));
  }

  function drawArena() {
    const placed = buffers.filter((buffer) => buffer.offset >= 0);
    if (!placed.length) return;
    const size = Math.max(...placed.map((buffer) => buffer.offset + buffer.bytes));
    const height = 240;
    const picture = drawing(width, height + 24);
    axes(picture, height, size, bytesText);
    for (const buffer of placed) {
      const tall = height * buffer.bytes / size;
      const block = shape("rect", {
        x: at(buffer.first_task) + 0.5, y: height - height * buffer.offset / size - tall,
        width: Math.max(at(Math.min(buffer.last_task, steps - 1) + 1) - at(buffer.first_task) - 1, 0.7), height: Math.max(tall - 0.6, 0.6),
        fill: color(buffer.kind), "fill-opacity": 0.75, class: "mark block",
      });
      picture.append(tipped(block, () => `${life(buffer)}\nat byte ${buffer.offset}`));
    }
    box.append(element("h3", {}, "Where it lies in the arena"), picture);
  }

  function listLargest() {
    const rows = [...buffers].sort((a, b) => b.bytes - a.bytes).map((buffer) => [
      ["name", buffer.name], names[buffer.kind], ["number", bytesText(buffer.bytes)],
      ["source", buffer.first_task < tasks.length ? `${tasks[buffer.first_task].name} (${buffer.first_task})` : "the end"],
      ["source", buffer.last_task < tasks.length ? `${tasks[buffer.last_task].name} (${buffer.last_task})` : "the end"],
    ]);
    box.append(element("h3", {}, "The largest"), longTable(["buffer", "kind", ["number", "bytes"], "from task", "to task"], rows, 8));
  }

  if (!buffers.length) {
    box.append(note(facts.counters.replays + facts.counters.eager_runs ? "No task writes memory of its own." : "Nothing is known before the first call."));
  } else {
    drawLive();
    drawArena();
    listLargest();
  }
});
