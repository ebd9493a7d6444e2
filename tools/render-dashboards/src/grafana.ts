// What Grafana's core sets up before its first page: themes, registries, and the services that packages ask for.
import {
  createTheme,
  type DataQueryRequest,
  type DataSourceApi,
  type DataSourceInstanceSettings,
  type GrafanaTheme2,
  LoadingState,
  type PanelData,
  standardTransformers,
  standardTransformersRegistry,
  toDataFrame,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { PrometheusDatasource } from '@grafana/prometheus';
import {
  config,
  setBackendSrv,
  setDataSourceSrv,
  setEchoSrv,
  setPluginImportUtils,
  setRunRequest,
  setTemplateSrv,
} from '@grafana/runtime';
import { type SceneObject, sceneGraph } from '@grafana/scenes';
import { catchError, map, type Observable, of } from 'rxjs';
import { backend, SCRAPE_SECONDS } from './server';

/** The dashboard on the page; variables are looked up in it. */
export const current: { scene?: SceneObject } = {};

const settings = {
  id: 1,
  uid: 'prometheus',
  name: 'Prometheus',
  type: 'prometheus',
  isDefault: true,
  access: 'proxy',
  url: '/',
  readOnly: true,
  jsonData: { httpMethod: 'GET', timeInterval: `${SCRAPE_SECONDS}s`, disableRecordingRules: true },
  meta: { id: 'prometheus', name: 'Prometheus', type: 'datasource', info: { version: '' }, module: '', baseUrl: '' },
} as unknown as DataSourceInstanceSettings;

function templates() {
  const of = (scoped: any): SceneObject => scoped?.__sceneObject?.value?.valueOf?.() ?? current.scene;
  return {
    getVariables: () => [],
    containsTemplate: (text?: string) => /\$/.test(text ?? ''),
    replace: (text?: string, scoped?: any, format?: any) =>
      current.scene ? sceneGraph.interpolate(of(scoped), text, scoped, format) : (text ?? ''),
    updateTimeRange() {},
  };
}

type Ask = (request: DataQueryRequest) => Observable<any>;

/** Runs a request; `ask`, where it is given, is a variable's query, which yields values rather than frames. */
function runRequest(source: DataSourceApi, request: DataQueryRequest, ask?: Ask): Observable<PanelData> {
  const common = { timeRange: request.range, request };
  return (ask ? ask(request) : (source.query(request) as Observable<any>)).pipe(
    map(({ data = [], error, errors }) => ({
      ...common,
      state: error || errors?.length ? LoadingState.Error : LoadingState.Done,
      series: ask ? data : data.map(toDataFrame),
      error,
      errors,
    })),
    catchError((error) => of({ ...common, state: LoadingState.Error, series: [], error, errors: [error] })),
  );
}

/** Transformations with a loader each; one id is there twice. */
function transformations() {
  const known = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
  return [...known.values()].map((one) => ({
    id: one.id,
    name: one.name,
    transformation: () => Promise.resolve(one),
    editor: () => null,
  }));
}

/** Sets everything up in this theme, `dark` or `light`. */
export async function startGrafana(mode: 'dark' | 'light'): Promise<GrafanaTheme2> {
  await initPluginTranslations('dashboards');
  const theme = createTheme({ colors: { mode } });
  config.theme2 = theme;
  standardTransformersRegistry.setInit(transformations as any);
  setTemplateSrv(templates() as any);
  setBackendSrv(backend as any);
  setEchoSrv({ flush() {}, addBackend() {}, addEvent() {} } as any);
  setPluginImportUtils({ importPanelPlugin: async () => undefined as any, getPanelPluginFromCache: () => undefined });
  setRunRequest(runRequest as any);
  const source = new PrometheusDatasource(settings as any);
  setDataSourceSrv({
    get: async () => source,
    getList: () => [settings],
    getInstanceSettings: () => settings,
    reload() {},
    registerRuntimeDataSource() {},
  } as any);
  return theme;
}
