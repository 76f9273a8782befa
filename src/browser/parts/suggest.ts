import { ofFrame } from "./frame.ts";

// Shows results under a search field while the reader types. Without this script, the field is a form.

interface Suggestion {
  kind: string;
  name: string;
  path: string;
}

const pauseMs = 120;

/**
 * Adds a list of results to a search field. The attribute `data-suggest` has the paths that return results, the best first. A path that does not
 * respond with results, for example because the reader is not signed in, is not asked again.
 */
export function makeSuggesting(input: HTMLInputElement): void {
  const list = document.createElement("ul");
  list.id = `${input.id}-results`;
  list.className = "suggestions";
  list.role = "listbox";
  list.ariaLabel = "Results";
  list.hidden = true;
  input.form?.append(list);
  input.role = "combobox";
  input.ariaAutoComplete = "list";
  input.setAttribute("aria-controls", list.id);
  const paths = input.dataset.suggest?.split(" ") ?? [];
  let asked = 0;
  let timer = 0;

  const mark = (option: Element | null | undefined) => {
    for (const each of list.querySelectorAll("a")) each.ariaSelected = String(each === option);
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  };
  const show = (results: readonly Suggestion[], text = "") => {
    const nothing = document.createElement("li");
    nothing.role = "option";
    nothing.ariaDisabled = "true";
    nothing.textContent = "No results";
    const options = results.map((result, index) => optionOf(result, `${list.id}-${index}`));
    list.replaceChildren(...(options.length > 0 ? options : [nothing]));
    list.hidden = options.length === 0 && text === "";
    input.ariaExpanded = String(!list.hidden);
    mark(null);
  };
  const ask = async () => {
    const number = ++asked;
    const text = input.value.trim();
    if (text === "") return show([]);
    let results: Suggestion[] | null = null;
    while (results === null && paths[0] !== undefined) {
      results = await resultsOf(paths[0], text);
      if (results === null) paths.shift();
      // Enter without a choice opens the page of the same search.
      else if (input.form) input.form.action = paths[0];
    }
    // A later question may have been asked in the meantime.
    if (number === asked) show(results ?? [], text);
  };

  show([]);
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask().catch(() => show([])), pauseMs);
  });
  input.addEventListener("keydown", (event) => {
    const marked = list.querySelector('[aria-selected="true"]');
    if (event.key === "Escape") show([]);
    else if (event.key === "ArrowDown") mark(marked ? (neighborOf(marked, "next") ?? marked) : list.querySelector("a"));
    else if (event.key === "ArrowUp") mark(marked && neighborOf(marked, "previous"));
    else if (event.key === "Enter" && marked) location.assign((marked as HTMLAnchorElement).href);
    else return;
    if (!list.hidden) event.preventDefault();
  });
  input.addEventListener("blur", (event) => {
    if (!list.contains(event.relatedTarget as Node | null)) show([]);
  });
}

/** Returns the option after or before an option. */
const neighborOf = (option: Element, side: "next" | "previous"): Element | null | undefined =>
  option.parentElement?.[`${side}ElementSibling`]?.firstElementChild;

/** Returns the results for a text, or null if the path does not give results to this reader. */
async function resultsOf(path: string, text: string): Promise<Suggestion[] | null> {
  const response = await fetch(`${path}?${new URLSearchParams({ q: text })}`, {
    headers: { ...ofFrame, Accept: "application/json" },
    redirect: "manual",
  });
  return response.ok ? ((await response.json()) as { results: Suggestion[] }).results : null;
}

function optionOf({ kind, name, path }: Suggestion, id: string): HTMLLIElement {
  const row = document.createElement("li");
  row.role = "presentation";
  const option = document.createElement("a");
  option.id = id;
  option.role = "option";
  option.href = path;
  option.tabIndex = -1;
  const title = document.createElement("bdi");
  title.textContent = name;
  const what = document.createElement("span");
  what.className = "quiet";
  what.textContent = kind;
  option.append(title, " ", what);
  // A press moves the focus, and the list closes without it. Therefore go immediately.
  option.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    option.click();
  });
  row.append(option);
  return row;
}
