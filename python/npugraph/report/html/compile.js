// Phases of the compile, hits of passes, options.
show("compile", (box, width) => {
  const whole = sum(facts.phases, ([, ms]) => ms);
  const bar = width - 200;
  const rowHeight = 24;
  const most = Math.max(...facts.phases.map(([, ms]) => ms), 0.001);
  const picture = drawing(width, facts.phases.length * rowHeight);
  facts.phases.forEach(([name, ms], row) => {
    const y = row * rowHeight;
    picture.append(shape("text", { x: 0, y: y + 15 }, name),
      tipped(shape("rect", { x: 120, y: y + 4, width: Math.max(bar * ms / most, 1), height: 14, rx: 2, fill: "var(--accent)", class: "mark" }),
        `${name}: ${ms.toFixed(2)} ms, ${percent(ms, whole)}`),
      shape("text", { x: 128 + bar * ms / most, y: y + 15, class: "soft" }, `${ms.toFixed(1)} ms`));
  });
  box.append(picture);
  const hits = Object.entries(facts.counters).filter(([name, count]) => name.startsWith("pass.") && count > 0);
  box.append(element("h3", {}, "Passes that changed something"));
  box.append(hits.length ? table(["pass", ["number", "changes"]], hits.map(([name, count]) => [["name", name.slice(5)], ["number", `${count}`]]))
    : element("p", { class: "none" }, "None."));
  const options = Object.entries(facts.options);
  box.append(element("h3", {}, "Options"));
  box.append(options.length ? table(["option", "value"], options.map(([name, value]) => [["name", name], ["name", value]]))
    : element("p", { class: "none" }, "All as they are by default."));
});
