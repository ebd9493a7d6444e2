// Serves the page, the dashboards, and Prometheus behind them, all at one address.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const KINDS = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
const WEIGHTS = { 'Inter-Regular.woff2': 400, 'Inter-Medium.woff2': 500 };
const ICONS = /^\/public\/build\/img\/icons\/([\w-]+\/[\w-]+\.svg)$/;

/** What Grafana's server has in its folder `public`: icons are in one of its packages, its font in another's. */
function publicFile(modules, pathname) {
  const icon = ICONS.exec(pathname);
  if (icon) return path.join(modules, '@grafana/ui/dist/public/img/icons', icon[1]);
  const weight = WEIGHTS[path.basename(pathname)];
  return weight && path.join(modules, `@fontsource/inter/files/inter-latin-${weight}-normal.woff2`);
}

/** `modules`: a node_modules folder; `dashboards`: a Map of uid to file. Returns the address and a way to stop. */
export async function serve(site, modules, dashboards, prometheus) {
  const forward = (request, response) => {
    const onwards = http.get(new URL(request.url, prometheus), (answer) => {
      response.writeHead(answer.statusCode, { 'content-type': 'application/json' });
      answer.pipe(response);
    });
    onwards.on('error', (error) => {
      response.writeHead(502, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ status: 'error', error: `Prometheus: ${error.message}` }));
    });
  };
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (pathname.startsWith('/api/v1/')) return forward(request, response);
    const wanted = pathname.startsWith('/dashboards/')
      ? dashboards.get(path.basename(pathname, '.json'))
      : (publicFile(modules, pathname) ?? path.join(site, path.normalize(pathname === '/' ? '/index.html' : pathname)));
    if (!wanted || !fs.existsSync(wanted) || !fs.statSync(wanted).isFile()) {
      // A few icons are only in Grafana's core: nothing is drawn for them.
      const missing = ICONS.test(pathname) || pathname === '/favicon.ico';
      response.writeHead(missing ? 200 : 404, { 'content-type': 'image/svg+xml' });
      return response.end(missing ? '<svg xmlns="http://www.w3.org/2000/svg"/>' : '');
    }
    response.writeHead(200, { 'content-type': KINDS[path.extname(wanted)] ?? 'application/octet-stream' });
    return fs.createReadStream(wanted).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}
