// Workerd's inspector: V8's debugger protocol for each isolate of the process.

/** What workerd is started with, so that `inspect` reaches it. */
export const inspectedAt = (port: number): string[] => [`--inspector-addr=127.0.0.1:${port}`];

export interface Session {
  send(method: string, params?: object): Promise<unknown>;
}

/** A session with the one Worker of a process. */
export async function inspect(port: number): Promise<Session> {
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as { title: string; webSocketDebuggerUrl: string }[];
  const [worker] = targets;
  if (!worker || targets.length > 1) throw new Error(`the inspector knows ${targets.map(({ title }) => title).join(", ")}`);
  return connect(worker.webSocketDebuggerUrl);
}

/** What an isolate holds in MiB, once what nobody needs is gone. */
export async function heldMiB(session: Session): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = (await session.send("Runtime.getHeapUsage")) as { usedSize: number };
  return usedSize / 2 ** 20;
}

/** The heap of an isolate in MiB, as it is committed. */
export async function heapMiB(session: Session): Promise<number> {
  const { totalSize } = (await session.send("Runtime.getHeapUsage")) as { totalSize: number };
  return totalSize / 2 ** 20;
}

async function connect(url: string): Promise<Session> {
  // wrangler lets in only who says to be of this machine.
  const socket = new WebSocket(url, { headers: { Origin: "http://localhost" } } as unknown as string[]);
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", reject);
  });
  let sent = 0;
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  return {
    send(method, params = {}) {
      const id = ++sent;
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        socket.send(JSON.stringify({ id, method, params }));
      });
    },
  };
}
