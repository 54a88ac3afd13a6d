// Files as one body, read from the disk while they are sent: the tar the load route takes. Pure.

const BLOCK = 512;
const LONGEST = 60;
const UTF8 = new TextEncoder();

/** Return a tar of `members`, each {what, file}: the type the rows are of, or `lines`. */
export function tarOf(members) {
  const parts = [];
  members.forEach(({ what, file }, number) => {
    const name = file.name.replace(/[^\w.-]/g, '_').slice(-LONGEST);
    parts.push(
      header(`${what}/${number}/${name}`, file.size),
      file,
      new Uint8Array((BLOCK - (file.size % BLOCK)) % BLOCK),
    );
  });
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts, { type: 'application/x-tar' });
}

function header(name, size) {
  const block = new Uint8Array(BLOCK);
  const write = (at, text) => block.set(UTF8.encode(text), at);
  const octal = (at, number, width) => write(at, number.toString(8).padStart(width - 1, '0'));
  write(0, name.slice(0, 100));
  octal(100, 0o644, 8);
  octal(108, 0, 8);
  octal(116, 0, 8);
  if (size < 8 ** 11) octal(124, size, 12);
  else for (let at = 135, left = size; at > 124; at--, left = Math.floor(left / 256)) block[at] = left % 256;
  if (size >= 8 ** 11) block[124] = 0x80;
  octal(136, 0, 12);
  write(148, '        ');
  write(156, '0');
  write(257, 'ustar');
  write(263, '00');
  const sum = block.reduce((all, byte) => all + byte, 0);
  write(148, `${sum.toString(8).padStart(6, '0')}\0 `);
  return block;
}
