// Assigns each sample of `perf` to a part of the platform or of the product, by its stack. The patterns match function names in the source of
// workerd.

export interface Frame {
  isKernel: boolean;
  /** The name of the function, or `[unknown]`. */
  name: string;
}

const garbage = "V8: garbage collection";
const helpers = "V8: its other threads";
const kernel = "kernel: sockets, waiting";

/** Matches functions of the garbage collector. A sample with such a function anywhere in its stack counts as garbage collection. */
const collecting = /^v8::internal::(Heap::CollectGarbage|MinorGCJob|IncrementalMarkingJob)|^cppgc::internal::HeapBase::/;

/**
 * The parts, and for each part a pattern that matches the names of its functions. The innermost matching frame of a stack determines the part. The
 * CPU time of containers, strings and memory management counts for the frame that uses them.
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

/** Matches helper functions of promises, containers and strings. Every part calls these functions, so their frames are skipped. */
const anybodys = /^kj::_::(Heap(Array)?Disposer|HashCoder|Deferred|StaticDisposer)|Disposer::/;

/**
 * Returns the part that a sample belongs to. `stack` has the innermost frame first. `partOfLine` has the part of each line of the Worker's script.
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

/** Returns whether a part belongs to the Worker's own script, including its libraries, and not to the runtime. */
export const isOfScript = (part: string): boolean => !/^(workerd|V8|kernel|native): /.test(part);

/** Returns the part that each line of a bundle belongs to: a package, or a folder of the product. */
export function partsOfLines(bundled: string): string[] {
  let part = "";
  return bundled.split("\n").map((line) => {
    const [, file] = /^\/\/ (\S+\.[cm]?[jt]sx?)$/.exec(line) ?? [];
    if (file) part = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? file.replace(/\/[^/]*$/, "/");
    return part;
  });
}
