import { Hono } from "hono";
import { needs } from "../../access/needs.ts";
import { showPage } from "../../components/layout.tsx";
import { RequestView } from "../../components/request-view.tsx";
import { idOf, type PageEnv } from "../../context.ts";
import { readRequestDetails } from "./read.ts";

/** The page of one request. The list of requests shows the same beside it. */
export const requestPages = new Hono<PageEnv>().get("/activity/:id", needs("session"), async (c) => {
  const details = await readRequestDetails(c, idOf(c));
  const { method, path } = details.entry;
  return showPage(
    c,
    { title: `${method} ${path}`, section: "Requests", trail: [["Activity", "/activity"]] },
    <RequestView c={c} details={details} now={Date.now()} />,
  );
});
