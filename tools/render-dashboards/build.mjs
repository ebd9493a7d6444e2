// Builds the page, once for each state of its sources.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { createRequire } from 'node:module';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const SOURCES = ['index.html', 'vite.config.mjs', 'src'];

function* filesOf(place) {
  if (fs.statSync(place).isFile()) yield place;
  else for (const name of fs.readdirSync(place).sort()) yield* filesOf(path.join(place, name));
}

/** The folder of the built page, for the packages of `folder`. */
export async function build(folder) {
  const hash = createHash('sha256').update(fs.readFileSync(path.join(folder, 'stamp')));
  for (const file of SOURCES.flatMap((name) => [...filesOf(path.join(HERE, name))])) {
    hash.update(path.relative(HERE, file)).update(fs.readFileSync(file));
  }
  const built = path.join(folder, 'built', hash.digest('hex').slice(0, 12));
  if (fs.existsSync(built)) return built;
  console.error('Building the page (a minute) ...');
  // Beside the packages, where they are looked for.
  const source = path.join(folder, 'source');
  fs.rmSync(source, { recursive: true, force: true });
  fs.rmSync(path.join(folder, 'built'), { recursive: true, force: true });
  for (const name of SOURCES) fs.cpSync(path.join(HERE, name), path.join(source, name), { recursive: true });
  const require = createRequire(path.join(folder, 'package.json'));
  const vite = await import(pathToFileURL(path.join(path.dirname(require.resolve('vite/package.json')), 'dist/node/index.js')));
  const before = process.cwd();
  process.chdir(source);
  try {
    await vite.build({ root: source, build: { outDir: `${built}.new`, emptyOutDir: true } });
  } finally {
    process.chdir(before);
  }
  fs.renameSync(`${built}.new`, built);
  return built;
}
