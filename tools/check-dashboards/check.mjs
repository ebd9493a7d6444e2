// node check.mjs [--json] PACKAGES FILE...: what one version of Grafana would not understand of these dashboards.
// PACKAGES is a folder that `tools/get_node_packages.sh` installed. Exits with 1 when it finds something.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { checkRegistries, loadGrafanaData } from './registries.mjs';
import { checkTypes } from './types.mjs';

const words = process.argv.slice(2);
const asJson = words[0] === '--json' && words.shift();
const [packages, ...files] = words;
if (!files.length) {
  console.error('usage: node check.mjs [--json] PACKAGES FILE...');
  process.exit(2);
}
const folder = fs.realpathSync(packages);
const require = createRequire(path.join(folder, 'package.json'));
const dashboards = new Map(files.map((file) => [file, JSON.parse(fs.readFileSync(file, 'utf8'))]));
// Some packages greet whoever loads them.
const say = console.log;
console.log = console.info = console.error;
const grafana = loadGrafanaData(require);
const types = checkTypes(require('typescript'), path.join(folder, 'node_modules'), dashboards);

const findings = [...dashboards].flatMap(([file, dashboard]) => [
  ...types.get(file).map((found) => ({ file, layer: 'types', ...found })),
  ...checkRegistries(grafana, dashboard).map((found) => ({ file, layer: 'registries', ...found })),
]);
if (asJson) {
  say(JSON.stringify({ grafana: require('@grafana/data/package.json').version, checked: files.length, findings }));
} else {
  for (const { file, layer, place, message } of findings) say(`${file}: ${place}: ${message} (${layer})`);
  const { version } = require('@grafana/data/package.json');
  say(`Grafana ${version}: ${files.length} dashboards, ${findings.length} findings`);
}
process.exitCode = findings.length ? 1 : 0;
