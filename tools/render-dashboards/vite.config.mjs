import react from '@vitejs/plugin-react';
import path from 'node:path';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  define: { 'process.env.NODE_ENV': '"production"' },
  // Not minified: a fault shall name its place.
  build: { minify: false, target: 'es2022', chunkSizeWarningLimit: 1e5 },
  logLevel: 'error',
  resolve: {
    // Grafana's packages want the bridge from an older router; what they use of it is the newer router itself.
    alias: {
      'react-router-dom-v5-compat': path.resolve('src/router.ts'),
      // Of the query editor, which no dashboard shows.
      '@grafana/assistant': path.resolve('src/assistant.ts'),
    },
    // One copy of what keeps state in its module.
    dedupe: [
      ...['react', 'react-dom', 'rxjs', '@emotion/react'],
      ...['data', 'i18n', 'runtime', 'schema', 'ui'].map((name) => `@grafana/${name}`),
    ],
  },
});
