// Lets the reader select a span of a chart over time. The chart is then a slider with two ends: the arrow keys move, Shift with them selects a span, and Enter
// shows the requests of the span. Dragging over the bars selects a span, too. Without this script, a table has the values and the links.

/** Makes a chart selectable. Its attribute `data-select` has the address of the list of requests, to which the span is added. */
export function makeSelectable(chart: HTMLElement): void {
  const plot = chart.querySelector<HTMLElement>(".plot");
  const bars = [...chart.querySelectorAll<SVGGElement>("[data-from]")];
  const readout = chart.querySelector<HTMLElement>("[data-readout]");
  if (!plot || bars.length === 0) return;
  const textOf = (at: number) => bars[at]?.querySelector("title")?.textContent ?? "";
  // The bars at both ends of the selection.
  let [anchor, end] = [bars.length - 1, bars.length - 1];

  /** Marks the selected bars, and says what they are. */
  const mark = () => {
    const [first, last] = [Math.min(anchor, end), Math.max(anchor, end)];
    for (const [index, bar] of bars.entries()) bar.classList.toggle("marked", index >= first && index <= last);
    const text = first === last ? textOf(first) : `${textOf(first).split(": ")[0]} to ${textOf(last)}`;
    if (readout) readout.textContent = text;
    plot.setAttribute("aria-valuenow", String(end));
    plot.setAttribute("aria-valuetext", text);
  };

  /** Shows the requests of the selected span. */
  const select = () => {
    const [start, last] = [bars[Math.min(anchor, end)], bars[Math.max(anchor, end)]];
    if (!start || !last) return;
    const url = new URL(chart.dataset.select ?? "/activity", location.href);
    url.searchParams.set("from", new Date(Number(start.dataset.from)).toISOString());
    url.searchParams.set("to", new Date(Number(last.dataset.to)).toISOString());
    location.assign(url);
  };

  /** Returns the bar below the pointer. */
  const barAt = ({ clientX }: PointerEvent): number => {
    const box = plot.querySelector(".area")?.getBoundingClientRect();
    if (!box) return end;
    return Math.min(bars.length - 1, Math.max(0, Math.floor(((clientX - box.left) / box.width) * bars.length)));
  };

  const attributes = {
    role: "slider",
    tabindex: "0",
    "aria-label": "Span of time",
    "aria-valuemin": "0",
    "aria-valuemax": String(bars.length - 1),
    "aria-valuenow": String(end),
    "aria-valuetext": textOf(end),
  };
  for (const [name, value] of Object.entries(attributes)) plot.setAttribute(name, value);
  let isDragging = false;
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    isDragging = true;
    anchor = end = barAt(event);
    plot.setPointerCapture(event.pointerId);
    mark();
  });
  plot.addEventListener("pointermove", (event) => {
    end = barAt(event);
    if (!isDragging) anchor = end;
    mark();
  });
  plot.addEventListener("pointerup", () => {
    if (isDragging) select();
    isDragging = false;
  });
  plot.addEventListener("pointercancel", () => (isDragging = false));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Enter") return select();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    end = Math.min(bars.length - 1, Math.max(0, end + step));
    if (!event.shiftKey) anchor = end;
    mark();
  });
}
