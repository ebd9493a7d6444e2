// The panels, with the defaults that Grafana's own plugins give their fields.
import { FieldColorModeId, PanelPlugin, standardEditorsRegistry, standardFieldConfigEditorRegistry } from '@grafana/data';
import { sceneUtils } from '@grafana/scenes';
import { addFields, standardFields } from './fields';
import { NotDrawn, TextPanel } from './NotDrawn';
import { StatPanel } from './StatPanel';
import { TablePanel } from './TablePanel';
import { TimelinePanel } from './TimelinePanel';
import { TimeSeriesPanel } from './TimeSeriesPanel';

const LINES = {
  drawStyle: 'line',
  lineInterpolation: 'linear',
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: 'none',
  lineStyle: { fill: 'solid' },
  spanNulls: false,
  insertNulls: false,
  showPoints: 'auto',
  pointSize: 5,
  stacking: { mode: 'none', group: 'A' },
  axisPlacement: 'auto',
  axisLabel: '',
  axisColorMode: 'text',
  axisBorderShow: false,
  axisCenteredZero: false,
  axisSoftMin: undefined,
  axisSoftMax: undefined,
  axisWidth: undefined,
  axisGridShow: undefined,
  scaleDistribution: { type: 'linear' },
  hideFrom: { legend: false, tooltip: false, viz: false },
  thresholdsStyle: { mode: 'off' },
  fillBelowTo: undefined,
  transform: undefined,
  lineColor: undefined,
  fillColor: undefined,
  pointColor: undefined,
  barAlignment: 0,
  barWidthFactor: 0.6,
};
const CELLS = {
  align: 'auto',
  cellOptions: { type: 'auto' },
  inspect: false,
  width: undefined,
  minWidth: undefined,
  hidden: false,
  hideFrom: undefined,
  filterable: false,
  wrapHeaderText: undefined,
};
const STATES = { lineWidth: 0, fillOpacity: 70, spanNulls: false, insertNulls: false, hideFrom: undefined };
const byThresholds = { defaultValue: { mode: FieldColorModeId.Thresholds } };
const byPalette = { defaultValue: { mode: FieldColorModeId.PaletteClassic } };

/** Types of panels that Grafana has and this does not draw. */
const NOT_DRAWN = ['alertlist', 'annolist', 'barchart', 'bargauge', 'gauge', 'heatmap', 'piechart', 'status-history'];

function register(id: string, component: any, fields: Record<string, unknown>, color: unknown) {
  const plugin = new PanelPlugin(component)
    .useFieldConfig({ standardOptions: { color } as any, useCustomConfig: (builder) => addFields(builder, fields) })
    .setDataSupport({ annotations: id === 'timeseries' || id === 'state-timeline', alertStates: false });
  sceneUtils.registerRuntimePanelPlugin({ pluginId: id, plugin: plugin as any });
}

export function registerPanels() {
  standardFieldConfigEditorRegistry.setInit(standardFields as any);
  standardEditorsRegistry.setInit(() => []);
  register('timeseries', TimeSeriesPanel, LINES, byPalette);
  register('stat', StatPanel, {}, byThresholds);
  register('table', TablePanel, CELLS, byThresholds);
  register('state-timeline', TimelinePanel, STATES, byThresholds);
  register('text', TextPanel, {}, byThresholds);
  for (const id of NOT_DRAWN) {
    register(id, NotDrawn, {}, byThresholds);
  }
}
