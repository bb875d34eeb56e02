// Tests of pure code need no PostgreSQL.
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const root = fileURLToPath(new URL('../..', import.meta.url))
const source = (path) => `${root}${path}`

export default defineConfig({
  root,
  resolve: {
    alias: [
      { find: /^holdfast$/, replacement: source('packages/engine/src/index.ts') },
      { find: /^holdfast\/internal$/, replacement: source('packages/engine/src/internal.ts') },
    ],
  },
  test: { include: ['packages/*/src/**/*.test.ts'], testTimeout: 20_000, maxWorkers: 1 },
})
