// Bundles the libraries of the page, and collects the licences of all that went into them.
//
// `make vendor` runs it after `npm ci`; the same pins give the same bytes. What it writes is checked
// in, so that neither a wheel nor a server needs Node.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, '../src/omnigraph/web/vendor');
const bundles = ['codemirror', 'force', 'arrow'];

function packageOf(input) {
  const words = input.split('node_modules/').pop().split('/');
  return words.slice(0, words[0].startsWith('@') ? 2 : 1).join('/');
}

function licenceOf(name) {
  const folder = join(here, 'node_modules', name);
  const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (!file || !license) throw new Error(`${name} states no licence`);
  const text = readFileSync(join(folder, file), 'utf8').trim();
  return `${name} ${version} (${license})\n${'-'.repeat(60)}\n${text}\n`;
}

mkdirSync(target, { recursive: true });
const packages = new Set();
for (const name of bundles) {
  const made = await build({
    absWorkingDir: here,
    entryPoints: [`${name}.js`],
    outfile: join(target, `${name}.js`),
    bundle: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    metafile: true,
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'error',
  });
  for (const input of Object.keys(made.metafile.inputs))
    if (input.includes('node_modules/')) packages.add(packageOf(input));
}

const licences = [...packages].sort().map(licenceOf);
const head = 'Libraries in the bundles of the page, each under its own licence.\n';
writeFileSync(join(target, 'THIRD_PARTY.txt'), [head, ...licences].join('\n\n'));

const files = [...bundles.map((name) => `${name}.js`), 'THIRD_PARTY.txt'];
const hashes = Object.fromEntries(
  files.map((name) => [
    name,
    createHash('sha256').update(readFileSync(join(target, name))).digest('hex'),
  ]),
);
writeFileSync(join(target, 'hashes.json'), JSON.stringify(hashes, null, 2) + '\n');
