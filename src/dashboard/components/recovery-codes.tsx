/** Renders recovery codes, which are shown only once. */
export const RecoveryCodes = ({ codes }: { codes: readonly string[] }) => (
  <>
    <p>
      If you do not have your passkey, you can sign in with one of these codes. Each code works once. The codes are shown only this once.
      Print the codes, or store them with your passwords.
    </p>
    <ol class="codes" aria-label="Recovery codes" data-secret>
      {codes.map((code) => (
        <>
          <li>
            <code>{code}</code>
          </li>
          {/* The newline puts every copied code on its own line. */}
          {"\n"}
        </>
      ))}
    </ol>
    <p>
      <a
        class="button main"
        download="recovery-codes.txt"
        href={`data:text/plain;charset=utf-8,${encodeURIComponent(`${codes.join("\n")}\n`)}`}
      >
        Download
      </a>{" "}
      <button type="button" data-copy="[data-secret]" hidden>
        Copy
      </button>{" "}
      <span role="status" data-copied />
    </p>
  </>
);
