// From a dashboard's JSON to the objects of @grafana/scenes. Grafana has its own converter, which it does not publish.
import { dateTime } from '@grafana/data';
import {
  behaviors,
  CustomVariable,
  dataLayers,
  DataSourceVariable,
  EmbeddedScene,
  QueryVariable,
  SceneDataLayerControls,
  SceneDataLayerSet,
  SceneDataTransformer,
  SceneGridItem,
  SceneGridLayout,
  SceneGridRow,
  SceneQueryRunner,
  SceneRefreshPicker,
  SceneTimePicker,
  SceneTimeRange,
  SceneVariableSet,
  VariableValueSelectors,
  VizPanel,
} from '@grafana/scenes';

type Json = Record<string, any>;

/** A variable with the value that the page's address gives it (`var-target=a`), else its default. */
function variable(model: Json, wanted: URLSearchParams) {
  const given = wanted.getAll(`var-${model.name}`);
  const { name, label, hide, description } = model;
  const value = given.length
    ? { value: model.multi ? given : given[0], text: model.multi ? given : given[0] }
    : { value: model.current?.value ?? (model.includeAll ? ['$__all'] : ''), text: model.current?.text ?? '' };
  const several = { isMulti: model.multi, includeAll: model.includeAll, allValue: model.allValue };
  const common = { name, label, hide, description, skipUrlSync: true, ...value };
  switch (model.type) {
    case 'datasource':
      return new DataSourceVariable({ ...common, pluginId: model.query, value: 'prometheus', text: 'Prometheus' });
    case 'custom':
      return new CustomVariable({ ...common, ...several, query: model.query });
    case 'query': {
      const { datasource, query, refresh, sort, regex } = model;
      return new QueryVariable({ ...common, ...several, datasource, query, refresh, sort, regex });
    }
    default:
      throw new Error(`variable ${name}: no ${model.type} here; add it to scene.ts`);
  }
}

function panel(model: Json): VizPanel {
  const queries = model.targets?.length
    ? new SceneDataTransformer({
        transformations: model.transformations ?? [],
        $data: new SceneQueryRunner({
          datasource: model.datasource,
          queries: model.targets,
          maxDataPoints: model.maxDataPoints,
          minInterval: model.interval,
        }),
      })
    : undefined;
  return new VizPanel({
    key: `panel-${model.id}`,
    pluginId: model.type,
    title: model.title,
    description: model.description,
    options: model.options ?? {},
    fieldConfig: model.fieldConfig ?? { defaults: {}, overrides: [] },
    displayMode: model.transparent ? 'transparent' : 'default',
    $data: queries,
  });
}

/** All panels, also those of collapsed rows, which are drawn open. */
function layout(models: Json[]) {
  const children = models.flatMap((model): any[] => {
    const { x, y, w: width, h: height } = model.gridPos;
    if (model.type === 'row') {
      return [new SceneGridRow({ x, y, width, height, title: model.title, isCollapsed: false, children: [] } as any)];
    }
    return [new SceneGridItem({ x, y, width, height, body: panel(model), isDraggable: false, isResizable: false } as any)];
  });
  return new SceneGridLayout({ isLazy: false, children });
}

/** The scene of a dashboard at the times and with the values that the page's address asks for. */
export function sceneOf(model: Json, wanted: URLSearchParams): EmbeddedScene {
  const time = (name: string) => dateTime(Number(wanted.get(name)) * 1000).toISOString();
  const layers = (model.annotations?.list ?? []).filter((query: Json) => query.datasource?.type === 'prometheus');
  return new EmbeddedScene({
    $timeRange: new SceneTimeRange({ from: time('from'), to: time('to'), timeZone: 'utc' }),
    $variables: new SceneVariableSet({ variables: (model.templating?.list ?? []).map((v: Json) => variable(v, wanted)) }),
    $data: new SceneDataLayerSet({
      layers: layers.map(
        (query: Json) =>
          new dataLayers.AnnotationsDataLayer({
            name: query.name,
            query: query as any,
            isEnabled: query.enable,
            isHidden: Boolean(query.hide),
          }),
      ),
    }),
    $behaviors: [new behaviors.CursorSync({ sync: model.graphTooltip ?? 0 })],
    controls: [
      new VariableValueSelectors({}),
      new SceneDataLayerControls(),
      new SceneTimePicker({}),
      new SceneRefreshPicker({ refresh: '' }),
    ],
    body: layout(model.panels),
  });
}
