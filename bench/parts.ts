// Assigns each sample of `perf` to a part of the platform or of the product. The stack of the sample determines the part. The patterns match
// names of functions in workerd's source code.

export interface Frame {
  isKernel: boolean;
  /** The name of the function, or `[unknown]`. */
  name: string;
}

const garbage = "V8: garbage collection";
const helpers = "V8: its other threads";
const kernel = "kernel: sockets, waiting";

/**
 * Matches the names of functions of the garbage collector. If the stack of a sample contains such a function, the sample counts as garbage
 * collection.
 */
const collecting = /^v8::internal::(Heap::CollectGarbage|MinorGCJob|IncrementalMarkingJob)|^cppgc::internal::HeapBase::/;

/**
 * The parts, each with a pattern that matches the names of its functions. The innermost stack frame that matches a pattern determines the part
 * of a sample. CPU time in functions for containers, strings and memory management counts toward the part that calls these functions.
 */
const owners: [part: string, of: RegExp][] = [
  ["workerd: headers", /^workerd::api::Headers|^kj::HttpHeaders/],
  ["workerd: `Request`, `Response`", /^workerd::api::(Request|Response|Body|FetchEvent|ServiceWorkerGlobalScope)/],
  ["workerd: calls of objects", /JsRpc|^capnp::|^workerd::(api::)?(.*Actor|InputGate|OutputGate)/],
  ["workerd: HTTP", /kj_hyper|\bhyper::|\bhttp::|\bbytes::|\bmio::|futures_util|workerd_server::listen/],
  ["workerd: context and lock per turn", /^workerd::(IoContext|Worker|ThreadContext|.*WorkerEntrypoint)/],
  ["V8: microtasks after each `await`", /^Builtins_RunMicrotasks|^v8::internal::MicrotaskQueue/],
  ["workerd: between JavaScript and C++", /^workerd::jsg::/],
  ["workerd: promises, event loop", /^kj::_::|^kj::(Promise|TaskSet|EventLoop)|tokio|kj_rs/],
];

/**
 * Matches the names of helper functions for promises, containers and strings. All parts call these helper functions, so stack frames of helper
 * functions are skipped.
 */
const anybodys = /^kj::_::(Heap(Array)?Disposer|HashCoder|Deferred|StaticDisposer)|Disposer::/;

/**
 * Returns the part that a sample belongs to. In `stack`, the innermost frame comes first. `partOfLine` contains the part of each line of the
 * Worker's script.
 */
export function partOf(thread: string, stack: readonly Frame[], partOfLine: readonly string[]): string {
  if (thread.startsWith("V8")) return helpers;
  if (stack[0]?.isKernel) return kernel;
  if (stack.some(({ name }) => collecting.test(name))) return garbage;
  for (const { name } of stack) {
    const [, script, line] = /^JS:.*\s(\S+):(\d+):\d+$/.exec(name) ?? [];
    if (script) return script === "index.js" ? (partOfLine[Number(line) - 1] ?? "") : "workerd: its own JavaScript";
    if (anybodys.test(name)) continue;
    const owner = owners.find(([, of]) => of.test(name));
    if (owner) return owner[0];
  }
  return "native: other";
}

/** Returns whether a part belongs to the Worker's script and not to the runtime. The script includes the libraries of the Worker. */
export const isOfScript = (part: string): boolean => !/^(workerd|V8|kernel|native): /.test(part);

/** Returns one part for each line of a bundle. The part is a package or a folder of the product. */
export function partsOfLines(bundled: string): string[] {
  let part = "";
  return bundled.split("\n").map((line) => {
    const [, file] = /^\/\/ (\S+\.[cm]?[jt]sx?)$/.exec(line) ?? [];
    if (file) part = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? file.replace(/\/[^/]*$/, "/");
    return part;
  });
}
