// The page: one dashboard, named by the address, and what the driver wants to know of it in `window.__page`.
import { FieldType, ThemeContext } from '@grafana/data';
import { LoadingState } from '@grafana/schema';
import { GlobalStyles } from '@grafana/ui';
import { sceneGraph, SceneQueryRunner, VizPanel } from '@grafana/scenes';
import { createRoot } from 'react-dom/client';
import { BrowserRouter } from 'react-router-dom';
import { current, startGrafana } from './grafana';
import { registerPanels } from './panels/register';
import { sceneOf } from './scene';
import { asked, underway } from './server';

const wanted = new URLSearchParams(location.search);
const errors: string[] = [];
window.addEventListener('error', (event) => errors.push(event.message));
window.addEventListener('unhandledrejection', ({ reason }) => errors.push(`rejected: ${reason?.stack ?? reason}`));

const finished = [LoadingState.Done, LoadingState.Error, LoadingState.Streaming];

function panelsNow() {
  if (!current.scene) return [];
  return sceneGraph.findAllObjects(current.scene, (one) => one instanceof VizPanel).map((one) => {
    const panel = one as VizPanel;
    const data = sceneGraph.getData(panel).state.data;
    const values = (data?.series ?? []).flatMap(({ fields }) =>
      fields.filter(({ type }) => type !== FieldType.time).map((field) => field.values),
    );
    return {
      title: panel.interpolate(panel.state.title, undefined, 'text'),
      type: panel.state.pluginId,
      hasQueries: sceneGraph.findObject(panel, (inner) => inner instanceof SceneQueryRunner) !== null || Boolean(panel.state.$data),
      finished: !panel.state.$data || finished.includes(data?.state as LoadingState),
      errors: (data?.errors ?? []).map((error) => error.message),
      series: values.length,
      annotations: (data?.annotations ?? []).reduce((count, frame) => count + frame.length, 0),
      empty: !values.some((column) => Array.from(column as any[]).some((value) => value !== null && value !== undefined)),
    };
  });
}

declare global {
  interface Window {
    __page: () => { errors: string[]; underway: number; panels: ReturnType<typeof panelsNow>; asked: typeof asked };
  }
}
window.__page = () => ({ errors, underway: underway.requests, panels: panelsNow(), asked });

async function main() {
  const theme = await startGrafana(wanted.get('theme') === 'light' ? 'light' : 'dark');
  registerPanels();
  const model = await (await fetch(wanted.get('dashboard') ?? '')).json();
  const scene = sceneOf(model, wanted);
  current.scene = scene;
  document.title = model.title;
  document.body.style.background = theme.colors.background.canvas;
  createRoot(document.getElementById('root')!).render(
    <ThemeContext.Provider value={theme}>
      <BrowserRouter>
        <GlobalStyles />
        <div style={{ padding: 16 }}>
          <h1 style={{ fontSize: 18, margin: '0 0 12px' }}>{model.title}</h1>
          <scene.Component model={scene} />
        </div>
      </BrowserRouter>
    </ThemeContext.Provider>,
  );
}

main().catch((error) => errors.push(`start: ${error.stack ?? error}`));
