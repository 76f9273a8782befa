// Lets the reader read and select in a chart. The chart is then a slider with two ends: the arrow keys move, Shift with them selects a span, and Enter
// opens the page of the span. Dragging over the bars selects a span, too. Without this script, a table has the values and the links.

/** Makes a chart selectable. Its attribute `data-select` has the address to which the span is added. */
export function makeSelectable(chart: HTMLElement): void {
  const plot = chart.querySelector<HTMLElement>(".plot");
  const bars = [...chart.querySelectorAll<SVGGElement>("[data-from]")];
  const readout = chart.querySelector<HTMLElement>("[data-readout]");
  if (!plot || bars.length === 0) return;
  const list = chart.dataset.select ?? "";
  const last = bars.length - 1;
  const textOf = (at: number) => bars[at]?.querySelector("title")?.textContent ?? "";
  const nameOf = (at: number) => textOf(at).split(": ")[0] ?? "";
  /** Returns the text of several bars. Only numbers of requests can be added up. */
  const textOfSpan = (from: number, to: number): string => {
    const span = `${nameOf(from)} to ${bars[to]?.dataset.ends ?? nameOf(to)}`;
    const sumOf = (name: string) => bars.slice(from, to + 1).reduce((sum, { dataset }) => sum + Number(dataset[name]), 0);
    const requests = sumOf("requests");
    if (Number.isNaN(requests)) return span;
    return `${span}: ${requests.toLocaleString("en")} requests, ${sumOf("failed").toLocaleString("en")} failed, ${sumOf("refused").toLocaleString("en")} refused`;
  };
  // The bars at both ends of the selection.
  let [anchor, end] = [last, last];

  /** Marks the selected bars, and says what they are. */
  const mark = () => {
    const [from, to] = [Math.min(anchor, end), Math.max(anchor, end)];
    for (const [index, bar] of bars.entries()) bar.classList.toggle("marked", index >= from && index <= to);
    const text = from === to ? textOf(from) : textOfSpan(from, to);
    if (readout) {
      readout.hidden = false;
      readout.textContent = text;
      readout.style.setProperty("--at", `${((end + 0.5) / bars.length) * 100}%`);
    }
    plot.setAttribute("aria-valuenow", String(end));
    plot.setAttribute("aria-valuetext", text);
  };

  /** Opens the page of the selected span. */
  const select = () => {
    const [first, final] = [bars[Math.min(anchor, end)], bars[Math.max(anchor, end)]];
    if (!first || !final) return;
    const url = new URL(list, location.href);
    url.searchParams.set("from", new Date(Number(first.dataset.from)).toISOString());
    url.searchParams.set("to", new Date(Number(final.dataset.to)).toISOString());
    location.assign(url);
  };

  /** Returns the bar below the pointer. */
  const barAt = ({ clientX }: PointerEvent): number => {
    const box = plot.querySelector(".area")?.getBoundingClientRect();
    if (!box) return end;
    return Math.min(last, Math.max(0, Math.floor(((clientX - box.left) / box.width) * bars.length)));
  };

  const attributes = {
    role: "slider",
    tabindex: "0",
    "aria-label": "Span of time",
    "aria-valuemin": "0",
    "aria-valuemax": String(last),
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
  for (const left of ["pointerleave", "blur"]) plot.addEventListener(left, () => readout?.setAttribute("hidden", ""));
  plot.addEventListener("pointercancel", () => (isDragging = false));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Enter") return select();
    if (event.key === "Escape") {
      isDragging = false;
      anchor = end;
      return mark();
    }
    const step = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      ArrowDown: -1,
      Home: Number.NEGATIVE_INFINITY,
      End: Number.POSITIVE_INFINITY,
    }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    end = Math.min(last, Math.max(0, end + step));
    if (!event.shiftKey) anchor = end;
    mark();
  });
}
