import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";

/** A TCP port on which a process listens, and the address of the port as Linux shows it in hexadecimal. */
export interface Listener {
  port: number;
  address: string;
}

/** The address 127.0.0.1 as Linux shows it. */
export const loopback = "0100007F";

/** The state of a listening socket in /proc/net/tcp. */
const listening = "0A";

/** Returns all TCP ports on which the processes listen. */
export function listenersOf(pids: readonly string[]): Listener[] {
  const sockets = new Set(pids.flatMap(socketsOf));
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === listening && sockets.has(`socket:[${inode}]`))
      .map(([, local = ""]) => ({ address: local.split(":")[0] ?? "", port: Number.parseInt(local.split(":")[1] ?? "", 16) })),
  );
}

/** Returns what the file descriptors of a process refer to. Leaves out what has ended or was closed in the meantime. */
const socketsOf = (pid: string): string[] =>
  unlessGone(() => readdirSync(`/proc/${pid}/fd`))
    .flat()
    .flatMap((descriptor) => unlessGone(() => readlinkSync(`/proc/${pid}/fd/${descriptor}`)));

function unlessGone<Result>(read: () => Result): Result[] {
  try {
    return [read()];
  } catch {
    return [];
  }
}

/** Sends a GET request with any headers, `Host` and `Origin` included. Returns the status and the body of the response. */
export function ask(port: number, path: string, headers: Record<string, string>): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const finish = async (response: IncomingMessage) => {
      let body = "";
      for await (const chunk of response) body += chunk;
      resolve({ status: response.statusCode ?? 0, body });
    };
    request({ host: "127.0.0.1", port, path, headers, agent: false, timeout: 20_000 }, (response) => void finish(response))
      .on("upgrade", (response, socket) => {
        socket.destroy();
        resolve({ status: response.statusCode ?? 0, body: "" });
      })
      .on("timeout", () => reject(new Error(`no response to ${path} on port ${port}`)))
      .on("error", reject)
      .end();
  });
}
