// A network: passes connections on to a port of this machine, and each piece of data half of a time later. Arguments: the own port, the other port, the time for
// a way there and back in milliseconds.
import { connect, createServer } from "node:net";

const [own, other, ms] = process.argv.slice(2).map(Number);
const later = (work) => (ms === 0 ? work() : setTimeout(work, ms / 2));
const pass = (from, to) => {
  from.on("data", (chunk) => later(() => to.writable && to.write(chunk)));
  from.on("error", () => to.destroy());
  from.on("end", () => later(() => to.end()));
};
createServer((client) => {
  const server = connect(other, "127.0.0.1");
  for (const socket of [client, server]) socket.setNoDelay(true);
  pass(client, server);
  pass(server, client);
}).listen(own, "127.0.0.1", 1024);
