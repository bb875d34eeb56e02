import { configDefaults, defineConfig, mergeConfig } from 'vitest/config'
import short from './vitest.config.js'

const LONG = ['long', 'matrix'].flatMap((kind) =>
  ['packages/*/src', 'test/src', 'bench/src', 'examples/*/src'].map((folder) => `${folder}/**/*.${kind}.test.ts`),
)

/** `npm run test:long`: the tests that take minutes by their nature, and every case of those that `npm test` samples. */
export default mergeConfig(
  { ...short, test: { ...short.test, include: [], exclude: [] } },
  defineConfig({
    test: {
      include: LONG,
      exclude: configDefaults.exclude,
      env: { HOLDFAST_TEST_LONG: '1' },
      testTimeout: 600_000,
      // Each starts worker processes of its own.
      maxWorkers: 3,
      // What they kill in their own process keeps its connections until that process ends.
      isolate: true,
    },
  }),
)
