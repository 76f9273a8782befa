import { priorities } from "../src/resources/tasks/task.ts";
import { changeTask, createTask } from "../src/resources/tasks/write-tasks.ts";
import { createUser } from "../src/resources/users/write-users.ts";
import { dayMs, hourMs } from "../src/time/clock.ts";
import type { WriteContext } from "../src/webhooks/outbox.ts";
import { pick, type Random, weighted } from "./seed-random.ts";

const people = [
  "Amara Okafor",
  "Jonas Lindqvist",
  "Mei Tanaka",
  "Lucía Ferreira",
  "Tomasz Nowak",
  "Priya Raman",
  "Oskar Brandt",
  "Nadia Haddad",
  "Elif Kaya",
  "Marcus Reid",
  "Ingrid Solberg",
  "Rafael Costa",
  "Yuki Mori",
  "Chiara Conti",
  "Sam O’Neill",
  "Leila Farahani",
  "Pavel Dvořák",
  "Anneke de Vries",
  "Kwame Mensah",
  "Sofia Papadaki",
  "Hugo Marchand",
  "Zofia Zielińska",
  "Daniel Kim",
  "Freya Nielsen",
];
const verbs = ["Review", "Replace", "Calibrate", "Document", "Test", "Order parts for", "Plan", "Fix", "Ship", "Measure"];
const things = [
  "gripper firmware",
  "charging dock",
  "lidar mount",
  "fleet dashboard",
  "safety report",
  "battery pack",
  "wheel encoder",
  "warehouse map",
  "motor driver",
  "onboarding guide",
];

/** Creates the users and tasks of the demo account. Their creation times lie between `startsAt` and `now`. */
export async function seedResources(random: Random, at: (time: number) => WriteContext, startsAt: number, now: number): Promise<void> {
  const users: string[] = [];
  for (const [index, name] of people.entries()) {
    const email = `${name
      .normalize("NFD")
      .replaceAll(/[^A-Za-z ]/g, "")
      .toLowerCase()
      .replaceAll(" ", ".")}@northwind.example`;
    const user = await createUser(at(startsAt + index * 5 * hourMs), {
      name,
      email,
      role: index < 2 ? "admin" : index % 7 === 0 ? "viewer" : "member",
      status: index % 11 === 10 ? "suspended" : "active",
    });
    users.push(user.id);
  }
  for (let index = 0; index < 160; index++) {
    const madeAt = startsAt + Math.floor((index / 160) * (now - startsAt - dayMs / 2) + random() * 8 * hourMs);
    const task = await createTask(at(madeAt), {
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
    });
    const doneAt = madeAt + Math.floor((2 + random() ** 2 * 240) * hourMs);
    if (random() < 0.78 && doneAt < now)
      await changeTask(at(doneAt), task.id, { status: random() < 0.94 ? "done" : "cancelled" }, () => true);
  }
}
