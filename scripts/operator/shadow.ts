import { action, type Command, print, table } from "./command.ts";

const integer = new Intl.NumberFormat("en-GB").format;

export const shadow: Record<string, Command> = {
  report: {
    form: "report",
    what: "list whom the service would have denied in shadow mode, and where your own check decided in another way",
    args: 0,
    run: async (given) => {
      const { body } = await given.client.call("GET", "/shadow");
      const { requests, denials, undecided, differences, findings } = body as Report;
      const rows = findings.map((each) => [
        each.differs ? "differs" : each.own === "not_compared" ? null : "agrees",
        each.code ?? "admitted",
        each.own.replace("_", " "),
        each.count,
        each.account,
        each.key,
        each.credential,
        each.last_at,
        each.request,
      ]);
      const late = undecided > 0 ? ` It did not decide in time about ${integer(undecided)}.` : "";
      const sum = `${integer(requests)} requests. The service would have denied ${integer(denials)}.${late} Your own check decided in another way about ${integer(differences)}.`;
      const headings = ["COMPARED", "SERVICE", "YOUR CHECK", "REQUESTS", "ACCOUNT", "KEY", "CREDENTIAL", "LATEST AT", "LATEST"];
      await print(given, body, () => (rows.length === 0 ? sum : `${sum}\n\n${table(headings, rows)}`));
    },
  },
  clear: action({
    form: "clear",
    what: "delete all findings of shadow mode, to look again after a change",
    args: 0,
    send: ({ client }) => client.call("DELETE", "/shadow"),
    said: () => "Deleted.",
  }),
};

interface Report {
  requests: number;
  denials: number;
  undecided: number;
  differences: number;
  findings: {
    differs: boolean;
    code: string | null;
    own: string;
    count: number;
    account: string | null;
    key: string | null;
    credential: string | null;
    last_at: string;
    request: string;
  }[];
}
