import { newId } from "../src/lib/ids.ts";
import { dayMs, hourMs } from "../src/lib/time/clock.ts";
import type { WriteContext } from "../src/outbox/outbox.ts";
import { priorities, type TaskContent } from "../src/resources/tasks/task.ts";
import { changeTask, createTask } from "../src/resources/tasks/write-tasks.ts";
import { createUser } from "../src/resources/users/write-users.ts";
import { pick, type Random, weighted } from "./seed-random.ts";
import { type Call, createTaskCall, createUserCall, patchTaskCall, type Written } from "./seed-traffic.ts";

const tasks = 240;
const people = `
  Amara Okafor, Jonas Lindqvist, Mei Tanaka, Lucía Ferreira, Tomasz Nowak, Priya Raman, Oskar Brandt, Nadia Haddad, Elif Kaya, Marcus Reid,
  Ingrid Solberg, Rafael Costa, Yuki Mori, Chiara Conti, Sam O’Neill, Leila Farahani, Pavel Dvořák, Anneke de Vries, Kwame Mensah,
  Sofia Papadaki, Hugo Marchand, Zofia Zielińska, Daniel Kim, Freya Nielsen
`
  .trim()
  .split(/,\s+/);
const verbs = ["Review", "Replace", "Calibrate", "Document", "Test", "Order parts for", "Plan", "Fix", "Ship", "Measure"];
const things = `
  gripper firmware, charging dock, lidar mount, fleet dashboard, safety report, battery pack, wheel encoder, warehouse map, motor driver,
  onboarding guide
`
  .trim()
  .split(/,\s+/);

/** The time from the start of a request to its change, in milliseconds. */
const changedAfterMs = 14;

/**
 * Creates the users and tasks of the demo account. Their creation times lie between `startsAt` and `now`. `by` returns the context of a change that a request
 * makes. Returns the requests.
 */
export async function seedResources(
  random: Random,
  by: (time: number, requestId: string) => WriteContext,
  startsAt: number,
  now: number,
): Promise<Written[]> {
  const written: Written[] = [];
  /** Makes a change in a request. */
  const change = async <Result>(time: number, call: Call, work: (context: WriteContext) => Promise<Result>, path = call.route) => {
    const requestId = newId("req", time - changedAfterMs);
    written.push({ requestId, call, path });
    return work(by(time, requestId));
  };
  const users: string[] = [];
  for (const [index, name] of people.entries()) {
    const email = `${name
      .normalize("NFD")
      .replaceAll(/[^A-Za-z ]/g, "")
      .toLowerCase()
      .replaceAll(" ", ".")}@northwind.example`;
    const user = await change(startsAt + index * 5 * hourMs, createUserCall, (context) =>
      createUser(context, {
        name,
        email,
        role: index < 2 ? "admin" : index % 7 === 0 ? "viewer" : "member",
        status: index % 11 === 10 ? "suspended" : "active",
      }),
    );
    users.push(user.id);
  }
  for (let index = 0; index < tasks; index++) {
    const madeAt = startsAt + Math.floor((index / tasks) * (now - startsAt - dayMs / 2) + random() * 8 * hourMs);
    const input: TaskContent = {
      title: `${pick(random, verbs)} ${pick(random, things)}`,
      description: "",
      status: random() < 0.6 ? "todo" : "in_progress",
      priority: weighted(
        random,
        priorities.map((priority, place) => [priority, [20, 50, 22, 8][place] ?? 1] as const),
      ),
      assigneeId: random() < 0.85 ? pick(random, users) : null,
      labels: random() < 0.4 ? [pick(random, ["hardware", "software", "field", "docs"])] : [],
      dueAt: random() < 0.7 ? madeAt + Math.ceil(3 + random() * 18) * dayMs : null,
    };
    const task = await change(madeAt, createTaskCall, (context) => createTask(context, input));
    const doneAt = madeAt + Math.floor((2 + random() ** 2 * 240) * hourMs);
    const status = random() < 0.94 ? "done" : "cancelled";
    if (random() < 0.78 && doneAt < now)
      await change(
        doneAt,
        patchTaskCall,
        (context) => changeTask(context, task.id, { status }, () => true),
        `${createTaskCall.route}/${task.id}`,
      );
  }
  return written;
}
