import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url))

// Tests read the sources, so that one copy of every module is in play; worker processes that the tests
// start and kill run the build, which is what users get. `npm test` builds first.
export default defineConfig({
  resolve: {
    alias: [
      { find: /^holdfast$/, replacement: source('packages/engine/src/index.ts') },
      { find: /^holdfast\/internal$/, replacement: source('packages/engine/src/internal.ts') },
      { find: /^@holdfast\/embedded$/, replacement: source('packages/embedded/src/index.ts') },
      { find: /^@holdfast\/testing\/internal$/, replacement: source('packages/testing/src/internal.ts') },
      { find: /^@holdfast\/testing$/, replacement: source('packages/testing/src/index.ts') },
      { find: /^@holdfast\/example-payments$/, replacement: source('examples/payments/src/index.ts') },
      { find: /^@holdfast\/acceptance\/tiny-model$/, replacement: source('test/src/tiny-model/index.ts') },
    ],
  },
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'test/src/**/*.test.ts',
      'bench/src/**/*.test.ts',
      'examples/*/src/**/*.test.ts',
    ],
    // What takes minutes by its nature (every kill of a matrix, hundreds of generated programs, chaos at size) is named
    // `*.long.test.ts` and runs in `npm run test:long`.
    exclude: [...configDefaults.exclude, '**/*.long.test.ts'],
    globalSetup: ['test/setup/postgres.ts'],
    // Not what decides a test: a busy machine is slow, and a test that hangs ends all the same.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 5,
    // Files share the modules of their worker: loading them anew for each file took a third of the whole time. So a test leaves
    // no module, environment variable or timer changed behind it.
    isolate: false,
    coverage: {
      provider: 'v8',
      include: ['packages/*/src/**'],
      exclude: ['**/*.test.ts', '**/*.fixture.ts', '**/index.ts'],
    },
  },
})
