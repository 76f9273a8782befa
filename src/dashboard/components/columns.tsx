import type { Child } from "hono/jsx";

/** A column of a table. Without a heading for the eye, `isUnseen`. */
interface Column {
  name: string;
  /** In pixels, or a share of the table, for example "14%". */
  width?: number | string;
  /** The class of a column that narrow tables leave out, or that wide ones widen. */
  class?: string;
  isNumber?: boolean;
  /** Whether the column contains times in the zone that the heading names. */
  isZoned?: boolean;
  isUnseen?: boolean;
}

/** Renders the headings of a table, and the widths of its columns if any has one. */
export const Columns = ({ of }: { of: readonly (string | Column | false)[] }) => {
  const columns = of.flatMap((each): Column[] => (each === false ? [] : [typeof each === "string" ? { name: each } : each]));
  return (
    <>
      {columns.some(({ width }) => width) && (
        <colgroup>
          {columns.map((column) => (
            <col width={column.width} class={column.class} />
          ))}
        </colgroup>
      )}
      <thead>
        <tr>
          {columns.map(({ name, isNumber, isZoned, isUnseen }) => (
            <th scope="col" class={isNumber ? "number" : undefined} data-zoned={isZoned || undefined}>
              {isUnseen ? <span class="unseen">{name}</span> : name}
            </th>
          ))}
        </tr>
      </thead>
    </>
  );
};

/** Renders a number in a table. On a card, which has no heading, its label says what it is. */
export const NumberCell = ({ label, children }: { label: string; children?: Child }) => (
  <td class="number" data-label={label}>
    {children}
  </td>
);
