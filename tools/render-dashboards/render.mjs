// Draws dashboards with Grafana's front-end code and says what is wrong with them; see README.md.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from './build.mjs';
import { serve } from './serve.mjs';

const USAGE = `usage: node render.mjs --packages DIR --prometheus URL [options] DASHBOARD.json...
  --out DIR          where the pictures and report.json go (pictures)
  --look SPEC        WIDTH-THEME or WIDTH-THEME-VISION, such as 1280-light-deuteranopia; several times (1600-dark)
  --to SECONDS       the end of the time shown (now)
  --span DURATION    how much is shown, such as 2h (what each dashboard says)
  --scrape SECONDS   the scrape interval of that Prometheus (15)
  --value UID:NAME=V a variable of a dashboard; several times
  --part TOP-BOTTOM  only these pixels of the height (all)
  --chromium FILE    the browser (chromium on PATH)`;
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };
const LONGEST_WAIT = 90_000;

const { values: given, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    packages: { type: 'string' },
    prometheus: { type: 'string' },
    out: { type: 'string', default: 'pictures' },
    look: { type: 'string', multiple: true, default: ['1600-dark'] },
    to: { type: 'string' },
    span: { type: 'string' },
    scrape: { type: 'string', default: '15' },
    value: { type: 'string', multiple: true, default: [] },
    part: { type: 'string' },
    chromium: { type: 'string', default: 'chromium' },
  },
});
if (!given.packages || !given.prometheus || !files.length) {
  console.error(USAGE);
  process.exit(2);
}

function seconds(duration) {
  const match = /^(\d+)([smhd])$/.exec(duration);
  if (!match) throw new Error(`not a duration: ${duration}`);
  return Number(match[1]) * SECONDS[match[2]];
}

function addressOf(base, uid, model, theme) {
  const to = Number(given.to ?? Math.floor(Date.now() / 1000));
  const from = to - seconds(given.span ?? model.time.from.replace('now-', ''));
  const words = new URLSearchParams({ dashboard: `/dashboards/${uid}.json`, theme, from, to, scrape: given.scrape });
  for (const text of given.value) {
    const [, dashboard, name, value] = /^([^:]+):([^=]+)=(.*)$/s.exec(text) ?? [];
    if (dashboard === uid) words.append(`var-${name}`, value);
  }
  return `${base}/?${words}`;
}

/** Waits until the page has all it asked for, and asks for nothing more. */
async function settled(page) {
  const end = Date.now() + LONGEST_WAIT;
  let quiet = 0;
  for (;;) {
    const state = await page.evaluate(() => window.__page?.());
    const done = state?.panels.length && !state.underway && state.panels.every(({ finished }) => finished);
    quiet = done || state?.errors.length ? quiet + 1 : 0;
    if (quiet >= 5) return state;
    if (Date.now() > end) {
      const waiting = state?.panels.filter(({ finished }) => !finished).map(({ title }) => title);
      return { ...state, errors: [...(state?.errors ?? []), `still waiting for ${waiting}`] };
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** What does not fit into its place: tables that must be scrolled sideways, texts of cells and titles that end in dots. */
const cut = () => {
  const wide = (one) => one.scrollWidth > one.clientWidth + 1;
  const titleOf = (one) => JSON.stringify(one.closest('section')?.querySelector('h2,h6')?.textContent);
  const cells = [...document.querySelectorAll('[role="gridcell"],[role="columnheader"]')];
  const clipped = cells.filter((cell) => wide(cell) || [...cell.querySelectorAll('*')].some(wide));
  return [
    ...[...document.querySelectorAll('[role="grid"]')]
      .filter(wide)
      .map((grid) => `table ${titleOf(grid)} is ${grid.scrollWidth - grid.clientWidth} px too wide`),
    ...clipped.map((cell) => `table ${titleOf(cell)}: ${JSON.stringify(cell.textContent)}`),
    ...[...document.querySelectorAll('section h2, section h6')].filter(wide).map((one) => `title ${titleOf(one)}`),
  ];
};

async function draw(browser, base, uid, model, look) {
  const [width, theme, vision] = look.split('-');
  const page = await browser.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(String(error.stack ?? error).slice(0, 2000)));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(`console: ${message.text().slice(0, 2000)}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) errors.push(`${response.status()} of ${decodeURIComponent(response.url())}`);
  });
  if (vision) await page.emulateVisionDeficiency(vision);
  const bottom = Math.max(...model.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  // A row of Grafana's grid is 30 pixels and a gap of 8; above it are the title and the controls, in lines that depend
  // on the width.
  const height = 38 * bottom + 300;
  await page.setViewport({ width: Number(width), height });
  await page.goto(addressOf(base, uid, model, theme), { waitUntil: 'load' });
  const state = await settled(page);
  const file = path.join(given.out, `${uid}-${look}.png`);
  const lowest = await page.evaluate(() => Math.max(...[...document.querySelectorAll('section')].map((one) => one.getBoundingClientRect().bottom)));
  const [top, end] = (given.part ?? `0-${height}`).split('-').map(Number);
  const clip = { x: 0, y: top, width: Number(width), height: Math.min(end, Math.ceil(lowest) + 16) - top };
  await page.screenshot({ path: file, clip, captureBeyondViewport: false });
  const tooWide = await page.evaluate(cut);
  await page.close();
  return {
    dashboard: uid,
    look,
    file,
    errors: [...new Set([...errors, ...state.errors, ...state.panels.flatMap((p) => p.errors.map((e) => `${p.title}: ${e}`))])],
    empty: state.panels.filter(({ hasQueries, empty }) => hasQueries && empty).map(({ title }) => title),
    cut: tooWide,
    panels: state.panels,
    queries: state.asked.length,
  };
}

const packages = fs.realpathSync(given.packages);
const require = createRequire(path.join(packages, 'package.json'));
const puppeteer = (await import(pathToFileURL(require.resolve('puppeteer-core')))).default;
const models = new Map(
  files.map((file) => [path.basename(file, '.json'), { file: path.resolve(file), model: JSON.parse(fs.readFileSync(file)) }]),
);
const site = await build(packages);
const server = await serve(site, path.join(packages, 'node_modules'), new Map([...models].map(([uid, { file }]) => [uid, file])), given.prometheus);
const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'render-dashboards-'));
const which = (name) => (process.env.PATH ?? '').split(':').map((place) => path.join(place, name)).find((file) => fs.existsSync(file));
const browser = await puppeteer.launch({
  executablePath: given.chromium.includes('/') ? given.chromium : which(given.chromium),
  userDataDir: profile,
  headless: true,
  // No sandbox: it shows nothing but pages of our own, and root has none. Nothing of a browser's own reaches out.
  args: [
    ...['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--font-render-hinting=none', '--no-first-run'],
    ...['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'],
  ],
});
const report = [];
try {
  fs.mkdirSync(given.out, { recursive: true });
  for (const [uid, { model }] of models) {
    for (const look of given.look) {
      let drawn = await draw(browser, server.url, uid, model, look);
      // A browser drops its requests when an interface of the machine comes or goes, as those of containers do.
      for (let again = 0; again < 3 && drawn.errors.some((line) => line.includes('ERR_NETWORK_CHANGED')); again += 1) {
        drawn = await draw(browser, server.url, uid, model, look);
      }
      report.push(drawn);
      console.log(`${drawn.file}: ${drawn.panels.length} panels, ${drawn.queries} queries`);
      for (const line of drawn.errors) console.log(`  error: ${line}`);
      for (const line of drawn.cut) console.log(`  cut: ${line}`);
      for (const title of drawn.empty) console.log(`  no data: ${title}`);
    }
  }
} finally {
  await browser.close();
  server.stop();
  fs.rmSync(profile, { recursive: true, force: true });
}
fs.writeFileSync(path.join(given.out, 'report.json'), JSON.stringify(report, null, 1));
process.exit(report.some(({ errors }) => errors.length) ? 1 : 0);
