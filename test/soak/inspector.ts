// A client for the inspector of workerd. The inspector offers V8's debugger protocol for each isolate of the process.

export interface Session {
  send(method: string, params?: object): Promise<unknown>;
}

/** Opens a debugger session with the Worker of a process. Throws unless the process has exactly one Worker. */
export async function inspect(port: number): Promise<Session> {
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as { title: string; webSocketDebuggerUrl: string }[];
  const [worker] = targets;
  if (!worker || targets.length > 1)
    throw new Error(`expected one Worker, but the inspector lists ${targets.map(({ title }) => title).join(", ")}`);
  return connect(worker.webSocketDebuggerUrl);
}

/** Collects garbage in an isolate. Then returns the size of the used heap, in MiB. */
export async function heldMiB(session: Session): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = (await session.send("Runtime.getHeapUsage")) as { usedSize: number };
  return usedSize / 2 ** 20;
}

async function connect(url: string): Promise<Session> {
  // wrangler accepts only connections whose `Origin` header names this machine.
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
