import type { Member } from "../../identity/member.ts";
import { mayManage, type Role, roles } from "../../identity/roles.ts";
import type { PageContext } from "../context.ts";
import { Age } from "./time.tsx";

/** Renders the members of an account, with the actions that the visitor may take on each member. `own` is the visitor's role. */
export const MemberTable = ({ members, c, own, now }: { members: readonly Member[]; c: PageContext; own: Role; now: number }) => (
  <table class="cards">
    <thead>
      <tr>
        <th scope="col">Name</th>
        <th scope="col">Email</th>
        <th scope="col">Role</th>
        <th scope="col">Last seen</th>
        <th scope="col">
          <span class="unseen">Actions</span>
        </th>
      </tr>
    </thead>
    <tbody>
      {members.map((member) => (
        <tr>
          <th scope="row" class="name">
            <bdi>{member.name}</bdi>
            {member.id === c.get("visitor").signedIn?.member.id && <span class="quiet"> (you)</span>}
          </th>
          <td class="break">{member.email}</td>
          <td>{member.role}</td>
          <td data-label="Last seen">{member.lastSeenAt === null ? "never" : <Age timeMs={member.lastSeenAt} now={now} />}</td>
          <td>
            {mayManage(own, member.role) && (
              <div class="buttons">
                <form class="inline" method="post" action={`/settings/members/${member.id}/role`}>
                  <label class="unseen" for={`role-${member.id}`}>
                    Role of {member.name}
                  </label>
                  <select id={`role-${member.id}`} name="role">
                    {roles
                      .filter((role) => mayManage(own, role))
                      .map((role) => (
                        <option value={role} selected={role === member.role}>
                          {role}
                        </option>
                      ))}
                  </select>
                  <button type="submit">Change role</button>
                </form>
                <a class="button danger" href={`/settings/members/${member.id}/remove`}>
                  Remove<span class="unseen"> {member.name}</span>
                </a>
              </div>
            )}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);
