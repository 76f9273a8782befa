import type { Member } from "../../identity/member.ts";
import { mayManage, type Role, roles } from "../../identity/roles.ts";
import type { PageContext } from "../context.ts";
import { Columns } from "./columns.tsx";
import { ButtonLink, Options } from "./fields.tsx";
import { Age } from "./time.tsx";

/** Returns whether a member can neither leave nor get another role, because the account would have no owner. */
const isOnlyOwner = ({ role, externalId }: Member, members: readonly Member[]): boolean =>
  role === "owner" && externalId === null && members.filter((each) => each.role === "owner" && each.externalId === null).length === 1;

/** Renders the members of an account, with the actions that the visitor may take on each member. `own` is the visitor's role. */
export const MemberTable = ({ members, c, own, now }: { members: readonly Member[]; c: PageContext; own: Role; now: number }) => (
  <table class="cards">
    <Columns of={["Name", "Email", "Role", "Last seen", { name: "Actions", isUnseen: true }]} />
    <tbody>
      {members.map((member) => (
        <tr>
          <th scope="row" class="name">
            <bdi>{member.name}</bdi>
            {member.id === c.get("visitor").signedIn?.member.id && <span class="quiet"> (you)</span>}
            {member.externalId !== null && <span class="quiet"> from another app: {member.externalId}</span>}
          </th>
          <td class="break">{member.email}</td>
          <td>{member.role}</td>
          <td data-label="Last seen">{member.lastSeenAt === null ? "never" : <Age timeMs={member.lastSeenAt} now={now} />}</td>
          <td>
            {isOnlyOwner(member, members) && <span class="quiet">the only owner</span>}
            {mayManage(own, member.role) && !isOnlyOwner(member, members) && (
              <div class="buttons">
                {member.externalId === null && (
                  <form class="inline" method="post" action={`/settings/members/${member.id}/role`}>
                    <label class="unseen" for={`role-${member.id}`}>
                      Role of {member.name}
                    </label>
                    <select id={`role-${member.id}`} name="role">
                      <Options of={roles.filter((role) => mayManage(own, role))} chosen={member.role} />
                    </select>
                    <button type="submit">Change role</button>
                  </form>
                )}
                <ButtonLink kind="danger" href={`/settings/members/${member.id}/remove`}>
                  Remove<span class="unseen"> {member.name}</span>
                </ButtonLink>
              </div>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
