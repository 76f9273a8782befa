import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Makes a server listen on a free port of this machine. Returns the port. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}
