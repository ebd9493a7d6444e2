// Plays the server behind Grafana's Prometheus data source, of which everything else is Grafana's own code: puts in the
// intervals, asks Prometheus, and answers in frames. Prometheus is reached at this page's own address.
import type { BackendSrvRequest } from '@grafana/runtime';
import { from, type Observable } from 'rxjs';

/** How often Prometheus scrapes, which Grafana's data source is told as its `timeInterval`. */
export const SCRAPE_SECONDS = Number(new URLSearchParams(location.search).get('scrape') ?? 15);
/** Prometheus refuses more points in one answer. */
const MOST_POINTS = 11_000;

type Query = {
  refId: string;
  expr: string;
  legendFormat?: string;
  instant?: boolean;
  range?: boolean;
  interval?: string;
  intervalMs?: number;
};
type Result = { metric: Record<string, string>; value?: [number, string]; values?: Array<[number, string]> };
export type Asked = { expr: string; series: number };

/** Every expression that Prometheus was asked for, as it was asked, and how many series came. */
export const asked: Asked[] = [];
/** Requests on their way; 0 when the page has all it asked for. */
export const underway = { requests: 0 };

async function prometheus(path: string, parameters: Record<string, unknown> = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      words.append(name, String(one));
    }
  }
  underway.requests += 1;
  try {
    const answer = await (await fetch(`/${path}?${words}`)).json();
    if (answer.status !== 'success') {
      throw new Error(`${answer.error} in ${parameters.query ?? path}`);
    }
    return answer;
  } finally {
    underway.requests -= 1;
  }
}

/** Seconds of a Go duration such as 60s or 1m. */
function seconds(text: string | undefined): number {
  const units: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 };
  const match = /^(\d+)(ms|s|m|h|d)$/.exec(text ?? '');
  return match ? Number(match[1]) * units[match[2]] : 0;
}

function withIntervals(expr: string, step: number, range: number): string {
  const scrape = SCRAPE_SECONDS;
  const values: Record<string, string> = {
    __interval: `${step}s`,
    __interval_ms: String(step * 1000),
    __rate_interval: `${Math.max(step + scrape, 4 * scrape)}s`,
    __range: `${range}s`,
    __range_s: String(range),
    __range_ms: String(range * 1000),
  };
  return expr.replace(/\$(?:\{(__\w+)\}|(__\w+))/g, (whole, braced, bare) => values[braced ?? bare] ?? whole);
}

/** The name of a series as the server makes it; for `__auto` the data source finds one. */
function legend(query: Query, metric: Record<string, string>): string {
  const { __name__: name = '', ...labels } = metric;
  if (query.legendFormat === '__auto') {
    return Object.keys(metric).length ? '' : query.expr;
  }
  if (query.legendFormat) {
    return query.legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? '') || query.expr;
  }
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return pairs.length ? `${name}{${pairs.join(', ')}}` : name || query.expr;
}

function frame(query: Query, result: Result, step: number, kind: string, executed: string) {
  const points = result.values ?? (result.value ? [result.value] : []);
  const name = legend(query, result.metric);
  return {
    schema: {
      refId: query.refId,
      name,
      meta: { type: 'timeseries-multi', custom: { resultType: kind }, executedQueryString: executed },
      fields: [
        { name: 'Time', type: 'time', config: { interval: step * 1000 } },
        {
          name: result.metric.__name__ ?? 'Value',
          type: 'number',
          labels: result.metric,
          config: name ? { displayNameFromDS: name } : {},
        },
      ],
    },
    data: { values: [points.map(([time]) => time * 1000), points.map(([, value]) => Number(value.replace('Inf', 'Infinity')))] },
  };
}

async function answerOne(query: Query, start: number, end: number) {
  const wished = Math.max(seconds(query.interval), (query.intervalMs ?? 0) / 1000, SCRAPE_SECONDS);
  const step = Math.max(Math.ceil(wished), Math.ceil((end - start) / MOST_POINTS));
  const expr = withIntervals(query.expr, step, Math.round(end - start));
  // As the server does, so that the same points come again when time goes on.
  const aligned = (time: number) => Math.floor(time / step) * step;
  const answer = query.instant
    ? await prometheus('api/v1/query', { query: expr, time: end })
    : await prometheus('api/v1/query_range', { query: expr, start: aligned(start), end: aligned(end), step });
  const { resultType, result } = answer.data;
  const series: Result[] = resultType === 'scalar' ? [{ metric: {}, value: result }] : result;
  asked.push({ expr, series: series.length });
  const executed = `Expr: ${expr}\nStep: ${step}s`;
  return series.map((one) => frame(query, one, step, resultType, executed));
}

async function answerQueries(body: { queries: Query[]; from: string; to: string }) {
  const results: Record<string, unknown> = {};
  await Promise.all(
    body.queries.map(async (query) => {
      try {
        const frames = await answerOne(query, Number(body.from) / 1000, Number(body.to) / 1000);
        results[query.refId] = { status: 200, frames };
      } catch (error) {
        results[query.refId] = { status: 400, error: (error as Error).message, frames: [] };
      }
    }),
  );
  return { results };
}

async function answer(request: BackendSrvRequest): Promise<unknown> {
  const { pathname } = new URL(request.url, location.origin);
  if (pathname === '/api/ds/query') {
    return answerQueries(request.data);
  }
  const resource = /^\/api\/datasources\/uid\/[^/]+\/resources\/\/?(.*)$/.exec(pathname);
  if (!resource) {
    throw new Error(`Grafana asks for ${request.url}, which nobody answers here`);
  }
  return prometheus(resource[1], { ...request.params, ...request.data });
}

export const backend = {
  fetch: (request: BackendSrvRequest): Observable<unknown> =>
    from(answer(request).then((data) => ({ data, status: 200, statusText: 'OK', ok: true, headers: new Headers() }))),
  get: (url: string, params?: Record<string, unknown>) => answer({ url, params }),
  post: (url: string, data?: unknown) => answer({ url, data }),
};
