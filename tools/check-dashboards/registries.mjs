// Finds names that the registries of `@grafana/data` do not have: the schema knows them as strings only.

/** Units may be made up of these and a text: `suffix: d`. */
const MADE_UNIT = /^(time|suffix|prefix|count|si|currency|currencyfix|bool|dateTime\w*):/;

/** As much of a browser as the package touches when it is loaded: each version touches something else. */
function pretendToBeABrowser() {
  const element = () => ({ appendChild() {}, setAttribute() {}, style: {} });
  globalThis.navigator ??= { language: 'en-US', languages: ['en-US'], userAgent: '' };
  globalThis.window ??= globalThis;
  globalThis.addEventListener ??= () => {};
  globalThis.location ??= { origin: 'http://localhost', href: 'http://localhost/', pathname: '/', search: '' };
  globalThis.history ??= { pushState() {}, replaceState() {} };
  globalThis.document ??= { head: element(), createElement: element, createTextNode: element, getElementsByTagName: () => [] };
}

/** `@grafana/data` of a folder of packages. */
export function loadGrafanaData(require) {
  pretendToBeABrowser();
  return require('@grafana/data');
}

const ids = (list) => new Set(list.map(({ id }) => id));

function registriesOf(grafana) {
  return {
    unit: new Set(grafana.getValueFormats().flatMap(({ submenu }) => submenu.map(({ value }) => value))),
    transformation: ids(Object.values(grafana.standardTransformers)),
    reducer: ids(grafana.fieldReducers.list()),
    matcher: ids(grafana.fieldMatchers.list()),
    'frame matcher': ids(grafana.frameMatchers.list()),
    'colour mode': ids(grafana.fieldColorModeRegistry.list()),
  };
}

/** All that a panel names, as [kind, name]. */
function* namesIn(panel) {
  const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
  const properties = overrides.flatMap((override) => override.properties);
  const values = (id) => [defaults[id], ...properties.filter((p) => p.id === id).map((p) => p.value)];
  for (const unit of values('unit')) if (unit) yield ['unit', unit];
  for (const color of values('color')) if (color) yield ['colour mode', color.mode];
  for (const { id, filter } of panel.transformations ?? []) {
    yield ['transformation', id];
    if (filter) yield ['frame matcher', filter.id];
  }
  for (const { matcher } of overrides) yield ['matcher', matcher.id];
  const { reduceOptions, legend } = panel.options ?? {};
  for (const name of [...(reduceOptions?.calcs ?? []), ...(legend?.calcs ?? [])]) yield ['reducer', name];
}

/** Faults that are no names: colours that draw nothing, patterns that do not compile. */
function* otherFaults(panel, grafana) {
  const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
  const properties = overrides.flatMap((override) => override.properties);
  for (const color of [defaults.color, ...properties.filter((p) => p.id === 'color').map((p) => p.value)]) {
    if (color?.mode === 'fixed' && !color.fixedColor) yield 'a fixed colour without a colour draws grey';
  }
  for (const { matcher } of overrides) {
    if (matcher.id !== 'byRegexp') continue;
    try {
      grafana.stringToJsRegex(matcher.options);
    } catch (error) {
      yield `pattern ${JSON.stringify(matcher.options)}: ${error.message}`;
    }
  }
}

const flat = (panels = []) => panels.flatMap((panel) => (panel.type === 'row' ? flat(panel.panels) : [panel]));

/** Findings of one dashboard: a list of { place, message }. */
export function checkRegistries(grafana, dashboard) {
  const registries = registriesOf(grafana);
  return flat(dashboard.panels).flatMap((panel) => {
    const place = `panel ${JSON.stringify(panel.title ?? panel.id)}`;
    const unknown = [...namesIn(panel)].filter(
      ([kind, name]) => !registries[kind].has(name) && !(kind === 'unit' && MADE_UNIT.test(name)),
    );
    return [
      ...unknown.map(([kind, name]) => ({ place, message: `unknown ${kind} ${JSON.stringify(name)}` })),
      ...[...otherFaults(panel, grafana)].map((message) => ({ place, message })),
    ];
  });
}
