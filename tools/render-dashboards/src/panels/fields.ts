// Grafana's standard options of fields, and how a panel adds its own. Their editors are in its core; none is needed here.
import {
  booleanOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  stringOverrideProcessor,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';

const item = (id: string, process: unknown, defaultValue?: unknown) => ({
  id,
  path: id,
  name: id,
  process,
  defaultValue,
  editor: () => null,
  override: () => null,
  shouldApply: () => true,
  settings: {},
});

const greenAndRed = {
  mode: 'absolute',
  steps: [
    { value: -Infinity, color: 'green' },
    { value: 80, color: 'red' },
  ],
};

export const standardFields = () => [
  item('unit', unitOverrideProcessor),
  item('min', numberOverrideProcessor),
  item('max', numberOverrideProcessor),
  item('fieldMinMax', booleanOverrideProcessor),
  item('decimals', numberOverrideProcessor),
  item('displayName', displayNameOverrideProcessor),
  item('color', identityOverrideProcessor, { mode: 'palette-classic' }),
  item('noValue', stringOverrideProcessor),
  item('thresholds', thresholdsOverrideProcessor, greenAndRed),
  item('mappings', valueMappingsOverrideProcessor, []),
  item('links', identityOverrideProcessor),
  item('filterable', booleanOverrideProcessor),
];

/** Adds the field options of a panel: names and defaults. */
export const addFields = (builder: any, defaults: Record<string, unknown>) => {
  for (const [id, value] of Object.entries(defaults)) {
    builder.addCustomEditor(item(id, identityOverrideProcessor, value));
  }
};
