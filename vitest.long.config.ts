import { configDefaults, defineConfig, mergeConfig } from 'vitest/config'
import short from './vitest.config.js'

/** `npm run test:long`: the tests that take minutes by their nature. */
export default mergeConfig(
  { ...short, test: { ...short.test, include: [], exclude: [] } },
  defineConfig({
    test: {
      include: ['packages/*/src/**/*.long.test.ts', 'test/src/**/*.long.test.ts', 'examples/*/src/**/*.long.test.ts'],
      exclude: configDefaults.exclude,
      testTimeout: 300_000,
    },
  }),
)
