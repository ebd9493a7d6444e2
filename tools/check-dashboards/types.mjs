// Finds what is not as `@grafana/schema` says, by compiling each dashboard as a TypeScript literal.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const STRICT = path.join(path.dirname(fileURLToPath(import.meta.url)), 'strict.ts');

/** Panels that the schema does not describe; only what all panels share is checked of them. */
const UNDESCRIBED = new Set(['alertlist']);

/** The modules that describe each type of panel: `state-timeline` is described in a folder `statetimeline`. */
function describedPanels(modules) {
  const base = path.join(modules, '@grafana/schema/dist/esm/raw/composable');
  const described = new Map();
  for (const folder of fs.readdirSync(base)) {
    const inside = path.join(base, folder, 'panelcfg/x');
    const file = fs.existsSync(inside) && fs.readdirSync(inside).find((name) => name.endsWith('_types.gen.d.ts'));
    if (file) {
      const text = fs.readFileSync(path.join(inside, file), 'utf8');
      described.set(folder, {
        // By its file: not every version exports it by name.
        module: './' + path.relative(path.dirname(modules), path.join(inside, file.slice(0, -'.d.ts'.length))),
        options: /interface Options\b/.test(text),
        fields: /interface FieldConfig\b/.test(text),
      });
    }
  }
  return described;
}

/** The source of one dashboard: a constant for its frame and one for each panel, so that a finding names its panel. */
function sourceOf(dashboard, described) {
  const { panels, ...frame } = dashboard;
  const places = [{ line: 0, place: 'dashboard' }];
  const findings = [];
  const imports = new Map();
  const body = [];
  const constant = (place, type, value) => {
    const text = `export const c${places.length}: ${type} = ${JSON.stringify(value, null, 1)};`;
    body.push({ place, text });
    places.push({ place });
  };
  constant('dashboard', 'Frame', frame);
  const add = (panel) => {
    const place = `panel ${JSON.stringify(panel.title ?? panel.id)}`;
    if (panel.type === 'row') {
      const { panels: inside = [], ...row } = panel;
      constant(place, 'Row', { ...row, panels: [] });
      inside.forEach(add);
      return;
    }
    const folder = String(panel.type).replaceAll('-', '');
    const known = described.get(folder);
    if (known) {
      imports.set(folder, known.module);
      const options = known.options ? `${folder}.Options` : 'Nothing';
      const fields = known.fields ? `${folder}.FieldConfig` : 'Nothing';
      constant(place, `PanelOf<${JSON.stringify(panel.type)}, ${options}, ${fields}>`, panel);
    } else if (UNDESCRIBED.has(panel.type)) {
      constant(place, `PanelOf<${JSON.stringify(panel.type)}, any, Nothing>`, panel);
    } else {
      findings.push({ place, message: `unknown type of panel ${JSON.stringify(panel.type)}` });
    }
  };
  (panels ?? []).forEach(add);
  const head = [
    `import type { Frame, Nothing, PanelOf, Row } from './strict';`,
    ...[...imports].map(([name, module]) => `import type * as ${name} from '${module}';`),
  ];
  let line = head.length;
  const starts = body.map(({ place, text }) => {
    const start = { place, line };
    line += text.split('\n').length;
    return start;
  });
  return { text: [...head, ...body.map(({ text }) => text)].join('\n'), starts, findings };
}

/** Options of the compiler; the packages bring their own declarations, which are not ours to check. */
function compilerOptions(ts) {
  return {
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    types: [],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
  };
}

/**
 * Findings per dashboard: a Map of its name to a list of { place, message }.
 * `dashboards`: a Map of names to parsed JSON; `modules`: the node_modules folder of one version of Grafana.
 */
export function checkTypes(ts, modules, dashboards) {
  const described = describedPanels(modules);
  // As if they lay beside node_modules, where the compiler looks for the packages.
  const folder = path.dirname(modules);
  const virtual = new Map([[path.join(folder, 'strict.ts'), fs.readFileSync(STRICT, 'utf8')]]);
  const sources = [...dashboards].map(([name, dashboard], i) => {
    const source = { name, file: path.join(folder, `dashboard-${i}.ts`), ...sourceOf(dashboard, described) };
    virtual.set(source.file, source.text);
    return source;
  });
  const options = compilerOptions(ts);
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.getSourceFile = (file, ...rest) =>
    virtual.has(file) ? ts.createSourceFile(file, virtual.get(file), rest[0]) : getSourceFile.call(host, file, ...rest);
  host.fileExists = (file) => virtual.has(file) || fileExists.call(host, file);
  host.readFile = (file) => virtual.get(file) ?? readFile.call(host, file);
  const program = ts.createProgram([...virtual.keys()], options, host);
  const strict = ts.getPreEmitDiagnostics(program, program.getSourceFile(path.join(folder, 'strict.ts')));
  if (strict.length) throw new Error(ts.flattenDiagnosticMessageText(strict[0].messageText, '\n'));
  return new Map(
    sources.map(({ name, file, starts, findings }) => [
      name,
      [
        ...findings,
        ...ts.getPreEmitDiagnostics(program, program.getSourceFile(file)).map((found) => {
          const { line } = ts.getLineAndCharacterOfPosition(found.file, found.start);
          const place = starts.findLast((start) => start.line <= line)?.place ?? 'imports';
          const text = found.file.text.split('\n')[line].trim();
          return { place, message: `${text}: ${ts.flattenDiagnosticMessageText(found.messageText, ' ')}` };
        }),
      ],
    ]),
  );
}
