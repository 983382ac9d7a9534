// The live charts of the overview: a board with the last minutes first, then a point a second.
(() => {
  const root = document.getElementById("charts");
  if (!root) return;
  const WINDOW_SECONDS = 300, STALE_AFTER_MS = 5000, RETRY_MS_MAX = 15000;
  const charts = new Map();
  let socket, seq = null, heard = 0, retries = 0;

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (index) => css(`--weir-line-${index % 8 + 1}`);
  const decimals = (value) => { const size = Math.abs(value); return size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3; };
  const number = (value) => value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: decimals(value) });

  function options(chart, element) {
    const line = css("--weir-line"), soft = css("--weir-soft");
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width: Math.max(160, element.clientWidth), height: 132, padding: [8, 26, 0, 0], legend: { show: false },
      cursor: { y: false, points: { size: 6 }, sync: { key: "weir" } },
      scales: {
        x: { time: true, range: (_, __, last) => [(last || Date.now() / 1000) - WINDOW_SECONDS, last || Date.now() / 1000] },
        y: { range: (_, __, top) => [0, chart.top || Math.max(top * 1.15, chart.floor || 1)] },
      },
      axes: [
        { ...axis, size: 22, space: 56, incrs: [15, 30, 60, 120, 300], values: (_, splits) => splits.map((at) => new Date(at * 1000).toISOString().slice(11, 19)) },
        { ...axis, size: 46, space: 24, values: (_, splits) => splits.map(number) },
      ],
      series: [{}, ...chart.labels.map((label, index) => ({ label, stroke: colour(index), width: 1.6, spanGaps: chart.sparse, points: { show: chart.sparse, size: 4, width: 0, fill: colour(index) },
        fill: chart.labels.length === 1 && !chart.sparse ? colour(0) + "1f" : undefined }))],
      hooks: { setCursor: [(plot) => show(chart, plot.cursor.idx)] },
    };
  }

  function draw(chart) {
    const plot = chart.section.querySelector(".plot");
    if (chart.plot) chart.plot.destroy();
    chart.plot = null;
    plot.replaceChildren();
    const filled = chart.columns.some((column) => column.some((value) => value !== null));
    if (!filled) {
      const nothing = document.createElement("div");
      nothing.className = "nothing"; nothing.textContent = chart.nothing;
      plot.append(nothing);
    } else {
      chart.plot = new uPlot(options(chart, plot), [chart.times, ...chart.columns], plot);
    }
    show(chart, null);
  }

  // The figure in the corner and the legend: under the cursor, else the last point.
  function show(chart, index) {
    const at = index === null || index === undefined ? chart.times.length - 1 : index;
    const last = (column) => chart.sparse && index === null ? column.findLast((value) => value !== null) : column[at];
    const values = chart.columns.map((column) => at < 0 ? null : last(column));
    const known = values.filter((value) => value !== null && value !== undefined);
    const total = known.length === 0 ? null : chart.total === "mean" ? known.reduce((a, b) => a + b, 0) / known.length : known.reduce((a, b) => a + b, 0);
    const output = chart.section.querySelector("output"), unit = document.createElement("small");
    unit.textContent = ` ${chart.unit}`;
    output.replaceChildren(number(chart.total === "first" ? values[0] : total), unit);
    const legend = chart.section.querySelector(".chart-legend");
    legend.replaceChildren(...chart.labels.map((label, place) => {
      const entry = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = colour(place);
      entry.append(mark, `${label} ${number(values[place])}`);
      entry.title = label;
      return entry;
    }));
  }

  function board(message) {
    for (const sent of message.charts) {
      const section = root.querySelector(`[data-chart="${sent.name}"]`);
      if (!section) continue;
      const chart = { ...sent, section, plot: charts.get(sent.name)?.plot };
      charts.set(sent.name, chart);
      draw(chart);
    }
  }

  function point(message) {
    for (const [name, values] of Object.entries(message.values)) {
      const chart = charts.get(name);
      if (!chart) continue;
      if (values.length !== chart.labels.length) return again();
      chart.times.push(message.at);
      values.forEach((value, index) => chart.columns[index].push(value));
      const old = chart.times.findIndex((at) => at >= message.at - WINDOW_SECONDS - 5);
      if (old > 0) { chart.times.splice(0, old); chart.columns.forEach((column) => column.splice(0, old)); }
      if (!chart.plot) { if (values.some((value) => value !== null)) draw(chart); else show(chart, null); continue; }
      chart.plot.setData([chart.times, ...chart.columns]);
      if (chart.plot.cursor.idx === null || chart.plot.cursor.left < 0) show(chart, null);
    }
    root.dataset.points = Number(root.dataset.points) + 1;
  }

  const again = () => { seq = null; if (socket.readyState === WebSocket.OPEN) socket.send('{"type":"again"}'); };

  function connect() {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${root.dataset.socket}`);
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      heard = Date.now(); retries = 0; root.classList.remove("stale");
      if (message.type === "board") { seq = message.seq; board(message); return; }
      if (seq === null) return;                       // a board is on its way
      if (message.seq !== seq + 1) return again();    // something was missed: read it again
      seq = message.seq;
      point(message);
    };
    socket.onclose = (event) => {
      root.classList.add("stale");
      if (event.code === 4403) { location.reload(); return; }
      retries += 1;
      setTimeout(connect, Math.min(RETRY_MS_MAX, 500 * 2 ** Math.min(retries, 5)) * (0.75 + Math.random() / 2));
    };
  }

  connect();
  setInterval(() => { if (heard && Date.now() - heard > STALE_AFTER_MS) root.classList.add("stale"); }, 1000);
  document.addEventListener("weir:theme", () => charts.forEach(draw));
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(root.clientWidth - width) < 4) return;
    width = root.clientWidth;
    charts.forEach((chart) => chart.plot?.setSize({ width: chart.section.querySelector(".plot").clientWidth, height: 132 }));
  }).observe(root);
})();
