import { startTestServer } from './test-server.js'

/**
 * The global setup of a test run: one PostgreSQL for all test files. vitest calls it and, at the end, the function that it returns;
 * under jest, which calls only this, the server ends with the process that started it.
 *
 * @example
 * // vitest.config.ts
 * export default defineConfig({ test: { globalSetup: ['@holdfast/testing/setup'] } })
 */
export default startTestServer
